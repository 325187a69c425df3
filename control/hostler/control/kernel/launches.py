"""Launches of which nothing is heard: asked about by themselves, a few times, while they are recent; and on request.

A node that took a task and says nothing has it in its journal, or runs it without our knowing. What it answers moves
the task (`task_probe.answered`). A failure that is over stays one, however healthy its container (LC-17, LC-18, LC-20).
"""

from hostler.base.errors import HostlerError
from hostler.control.kernel import events, task_probe
from hostler.control.kernel.actor import KERNEL, Actor
from hostler.control.kernel.assign import cursor_of
from hostler.control.kernel.cancel import check_own_to_move, own, retry_operation
from hostler.control.kernel.changes import Change, made
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.node_commands import Done
from hostler.control.kernel.rows import NodeRow, OperationRow, TaskRow
from hostler.control.kernel.sessions import send_what_waited
from hostler.control.kernel.tasks import node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL, QUEUED, RUNNING
from hostler.control.kernel.workload_commands import ProbeWorkload, RecoverWorkload, WorkloadRecovered

MOST_AT_ONCE = 16  # by one pass, and by one request
# Ends that say more about our knowledge than about the work.
UNCLEAR_ENDS = frozenset({"interrupted_apply", "container_lost", "expired"})


def ask_about_stalled(draft: Draft) -> int:
    """→ how many nodes were asked. Each attempt is asked about once for each age of `ask_after_ms`."""
    window, limits = draft.settings.envelope_window_ms, draft.settings.launches
    signed_before, signed_after = draft.now_ms - limits.ask_after_ms[0], draft.now_ms - limits.recent_ms
    stalled = draft.view.stalled_launches(signed_before + window, signed_after + window, MOST_AT_ONCE)
    asked = 0
    for task in draft.current(stalled):
        node, operation = node_of(draft, task.node_id), operation_of(draft, task.operation_id)
        key = _key(task, draft.now_ms - (task.expires_at_ms - window), limits.ask_after_ms)
        known = draft.view.operation_by_key(node.org_id, node.project_id, key) is not None
        if known or task.state != ASSIGNED or operation.operation_type == task_probe.TYPE:
            continue
        try:
            task_probe.ask(draft, node, task, KERNEL, operation.correlation_id, key=key)
        except HostlerError:  # such as a node whose catalog has no probe yet
            continue
        asked += 1
    return asked


def _key(task: TaskRow, age_ms: int, ask_after_ms: tuple[int, ...]) -> str:
    """The same for every pass until the launch reaches the next age."""
    return f"launch.{task.attempt_uid}.{sum(age_ms >= after for after in ask_after_ms)}"


def probe(draft: Draft, command: ProbeWorkload) -> Decision:
    """Asks now, whatever was asked before."""
    operation = own(draft, command.actor, command.project_id, command.operation_id)
    told = _Told(operation)
    _ask(draft, operation, command.actor, command.correlation_id, told)
    asked = [done.operation_id for done in told.did]
    return _decision(draft, command.actor, "operation.probed", "operation.probe", told, made(asked=asked))


def recover(draft: Draft, command: RecoverWorkload) -> Decision:
    """The next honest thing for an operation; call it again for whatever is next then."""
    operation = own(draft, command.actor, command.project_id, command.operation_id)
    told = _Told(operation)
    if operation.status in FINAL:
        check_own_to_move(operation, command.actor)
        _again(draft, operation, told)
    else:
        _send(draft, operation, told)
        _ask(draft, operation, command.actor, command.correlation_id, told)
    now = operation_of(draft, operation.operation_id)
    change = Change(_picture(operation) | {"did": []}, _picture(now) | {"did": [done.what for done in told.did]})
    return _decision(draft, command.actor, "operation.recovered", "operation.recover", told, change)


class _Told:
    """What was done, and what remains, for an operation as it was."""

    def __init__(self, operation: OperationRow) -> None:
        self.operation = operation
        self.did: list[Done] = []
        self.remains: list[str] = []


def _decision(draft: Draft, actor: Actor, type_: str, action: str, told: _Told, change: Change) -> Decision:
    now = operation_of(draft, told.operation.operation_id)
    draft.events.append(
        events.operation_event(
            type_,
            now,
            draft.now_ms,
            actor=actor,
            action=action,
            result="accepted",
            change=change,
            did=[(done.what, done.operation_id) for done in told.did],
            remains=told.remains,
        )
    )
    result = WorkloadRecovered(operation_id=now.operation_id, did=tuple(told.did), remains=tuple(told.remains))
    return draft.decision(result)


def _picture(operation: OperationRow) -> dict[str, object]:
    return {"status": operation.status, "attempt_number": operation.attempt_number}


def _ask(draft: Draft, operation: OperationRow, actor: Actor, correlation_id: str, told: _Told) -> None:
    asked = 0
    for task in draft.tasks_of(operation.operation_id):
        if task.state not in (ASSIGNED, RUNNING) or not task.sequence:
            continue
        node = node_of(draft, task.node_id)
        if node.connection != "connected":
            told.remains.append(f"node {node.name} is not connected: it says what became of its task when it is back")
        elif task.sequence > cursor_of(draft, node.node_id).accepted_sequence:
            told.remains.append(f"node {node.name} has not taken its task yet")
        elif asked == MOST_AT_ONCE:
            told.remains.append("more tasks are open than are asked about at once: call again when these are answered")
            return
        else:
            asked += _asked(draft, node, task, actor, correlation_id, told)


def _asked(draft: Draft, node: NodeRow, task: TaskRow, actor: Actor, correlation_id: str, told: _Told) -> int:
    try:
        probe_id = task_probe.ask(draft, node, task, actor, correlation_id)
    except HostlerError as err:
        told.remains.append(f"node {node.name} could not be asked about its task: {err.message}")
        return 0
    text = f"node {node.name} is asked what became of task {task.task_id}"
    told.did.append(Done(what="task_probed", text=text, operation_id=probe_id, project_id=node.project_id))
    return 1


def _send(draft: Draft, operation: OperationRow, told: _Told) -> None:
    """What waits for a node that is there goes to it."""
    before = set(draft.orders)
    nodes = {task.node_id for task in draft.tasks_of(operation.operation_id) if task.state in (QUEUED, ASSIGNED)}
    for node_id in sorted(nodes - {""}):
        node = node_of(draft, node_id)
        if node.connection == "connected" and not node.hold:
            send_what_waited(draft, node, cursor_of(draft, node_id).accepted_sequence)
            draft.wake.add(node_id)
    sent = len(set(draft.orders) - before)
    if sent:
        told.did.append(Done(what="work_sent", text=f"{sent} orders that waited are signed and sent"))


def _again(draft: Draft, operation: OperationRow, told: _Told) -> None:
    """A new attempt, where it failed a short while ago by an end that is unclear; never the old one revived."""
    unclear = operation.error_code in UNCLEAR_ENDS
    age_ms, recent_ms = draft.now_ms - operation.finished_at_ms, draft.settings.launches.recent_ms
    if operation.status != "failed":
        told.remains.append(f"it is {operation.status}: there is nothing to recover")
    elif draft.settings.jobs.is_job(operation.operation_type):
        told.remains.append("a job tries its tasks again by itself, and this one has ended: submit it again")
    elif not unclear or age_ms > recent_ms:
        why = f"ended over {recent_ms // 1000} s ago" if unclear else f"ended by {operation.error_code}, which is clear"
        told.remains.append(f"it {why}, so it stays failed: 'hostler operations retry' begins a new attempt")
    else:
        retry_operation(draft, operation)
        text = f"it ended by {operation.error_code} a short while ago: a new attempt begins"
        told.did.append(
            Done(what="retried", text=text, operation_id=operation.operation_id, project_id=operation.project_id)
        )
