"""Sessions: what a hello tells about the past, and what can be sent because of it."""

import msgspec

from hostler.base.errors import error
from hostler.catalog.capabilities import bounded
from hostler.control.kernel import (
    agent_checks,
    agent_runs,
    agent_versions,
    capability,
    events,
    job_flow,
    keysets,
)
from hostler.control.kernel.allocation_states import DEGRADED, OK, resting_health
from hostler.control.kernel.assign import assign, cursor_of, free_slots, give_up, order_cancel, waits
from hostler.control.kernel.commands import ControlStarted, NodeGone, NodeHello, NodeStatus, TasksAccepted
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.nodes import prove_certificate
from hostler.control.kernel.rows import DefinitionRow, NodeRow, TaskRow
from hostler.control.kernel.tasks import end_task, move_task, node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, QUEUED

replace = msgspec.structs.replace
ROLLBACK, CLONED = "controller_rollback", "identity_cloned"
KEPT_INSTANCES = 16
_WORD = 64
CONTAINER_RUN = "container.run"
UNTAKEN = "cancelled before the node took it"


def hello(draft: Draft, command: NodeHello) -> Decision:
    """The node is here: its marks are compared with ours, then everything that waited for it is signed.

    → whether the agent is asked for a new certificate (LC-21).
    """
    node = node_of(draft, command.node_id)
    if node.state == "revoked":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    said = command.hello
    # marks and holds of another epoch say nothing about this one: the root's keyset is on its way
    ours = said.control_epoch in (0, draft.settings.control_epoch)
    past = _past_instances(node, said.instance_id[:_WORD])
    if node.hold == CLONED or (said.instance_id and said.instance_id in past):
        return _cloned(draft, node, said.instance_id)
    here = replace(
        node,
        connection="connected",
        session_id=command.session_id,
        agent_version=said.agent_version,
        boot_id=said.boot_id,
        keyset_version=said.keyset_version,
        catalog_version=said.catalog_version,
        parallel_tasks=said.parallel_tasks,
        capabilities=capabilities_text(said.capabilities),
        storage=said.storage,
        last_seen_ms=draft.now_ms,
        hold=ROLLBACK if ours and said.hold == ROLLBACK else "",
        drift=said.drift[:_WORD],
        instance_id=said.instance_id[:_WORD],
        past_instances=events.json_text(past),
    )
    here = _with_health(here)
    draft.update(here)
    if node.pool:
        draft.freed[node.node_id] = None
    prove_certificate(draft, node.node_id, command.serial)
    draft.events.append(
        events.node_event(
            "node.connected",
            here,
            draft.now_ms,
            agent_version=said.agent_version,
            session_id=command.session_id,
            storage=said.storage,
        )
    )
    high_sequence = said.high_sequence if ours else 0
    if ours:
        here = _compare_marks(draft, here, high_sequence, frozenset(said.open_tasks))
    if not here.hold:
        send_what_waited(draft, here, high_sequence)
        job_flow.end_strays(draft, here, high_sequence)
        job_flow.look_at_node(draft, here)
    draft.wake.add(node.node_id)
    _agent(draft, here, said.agent_commit[:_WORD])
    return draft.decision(agent_checks.wants_renewal(draft, agent_runs.open_run_of(draft, node.node_id), here))


def _agent(draft: Draft, node: NodeRow, commit: str) -> None:
    """What it was built from, and that its lifecycle run may go on."""
    agent = agent_versions.agent_of(draft, node.node_id)
    if commit and commit != agent.commit_id:
        draft.update(replace(agent, commit_id=commit))
    draft.agent_nodes[node.node_id] = None


def _with_health(node: NodeRow) -> NodeRow:
    """Degraded and well again follow what the node says; cleaning and quarantine end otherwise."""
    return replace(node, health=resting_health(node)) if node.health in (OK, DEGRADED) else node


def _past_instances(node: NodeRow, instance_id: str) -> list[str]:
    """Agent processes that spoke for the node before the present one; newest last."""
    past: list[str] = msgspec.json.decode(node.past_instances)
    if node.instance_id and node.instance_id != instance_id:
        past = [*past, node.instance_id][-KEPT_INSTANCES:]
    return past


def _cloned(draft: Draft, node: NodeRow, instance_id: str) -> Decision:
    """A process that was replaced speaks again: two hosts hold one identity, and neither is served."""
    refusal = error(
        CLONED,
        f"node {node.name} speaks from two places",
        hint="revoke it and enrol each host by itself, or 'hostler nodes release' it",
        node_id=node.node_id,
    )
    if node.hold != CLONED:
        held = replace(node, hold=CLONED, connection="lost")
        draft.update(held)
        draft.events.append(
            events.node_event("node.identity_cloned", held, draft.now_ms, error_code=CLONED, instance_id=instance_id)
        )
    return draft.decision(refusal=refusal)


def status(draft: Draft, command: NodeStatus) -> Decision:
    """What a heartbeat says: which trust the node has proved, and what is wrong with it."""
    node = node_of(draft, command.node_id)
    hold = ROLLBACK if command.hold == ROLLBACK else node.hold
    capabilities = capabilities_text(command.capabilities) if command.capabilities else node.capabilities
    now = replace(
        node,
        keyset_version=command.keyset_version or node.keyset_version,
        catalog_version=command.catalog_version,
        storage=command.storage,
        drift=command.drift,
        hold=hold,
        capabilities=capabilities,
    )
    now = _with_health(now)
    if now == node:
        return draft.decision()
    if (now.health, now.hold) != (node.health, node.hold):
        draft.agent_nodes[node.node_id] = None
    if now.health != node.health:
        draft.freed[node.node_id] = None
        job_flow.look_at_node(draft, now)
    draft.update(now)
    if capabilities != node.capabilities:
        _capabilities_changed(draft, node, now)
    if (now.hold, now.drift) != (node.hold, node.drift):
        draft.events.append(
            events.node_event(
                "node.status_changed",
                now,
                draft.now_ms,
                error_code=now.hold or now.drift,
                hold=now.hold,
                drift=now.drift,
            )
        )
    return draft.decision()


def capabilities_text(said: dict[str, str]) -> str:
    """What is kept of a node's own words: in order, so that the same words are the same text."""
    return events.json_text(bounded(said))


def _capabilities_changed(draft: Draft, before: NodeRow, now: NodeRow) -> None:
    """What waited for a capability goes at once, and says so if it still waits (CG-04)."""
    old, new = (msgspec.json.decode(node.capabilities, type=dict[str, str]) for node in (before, now))
    changed = {key: [old.get(key), new.get(key)] for key in sorted(old | new) if old.get(key) != new.get(key)}
    draft.events.append(events.node_event("node.capabilities_changed", now, draft.now_ms, changed=changed))
    if now.connection != "connected" or now.hold or now.state != "active":
        return
    job_flow.look_at_node(draft, now)
    for task in draft.open_tasks_on(now.node_id):
        untaken = task.state == ASSIGNED and task.expires_at_ms <= draft.now_ms
        may_go = task.state == QUEUED and free_slots(draft, operation_of(draft, task.operation_id)) > 0
        if may_go or (untaken and task.waiting_for and not task.cancel_requested):
            assign(draft, task, now)


def _compare_marks(draft: Draft, node: NodeRow, high_sequence: int, open_tasks: frozenset[str]) -> NodeRow:
    """The node as it is after that: held, when it has seen more of us than we remember (P1)."""
    cursor = cursor_of(draft, node.node_id)
    if high_sequence < cursor.accepted_sequence:
        _journal_lost(draft, node, high_sequence, open_tasks)
        return node
    if high_sequence > cursor.sequence:
        # We are the older copy: the node holds by itself, and people have to know.
        node = replace(node, hold=ROLLBACK)
        draft.update(node)
        draft.events.append(
            events.node_event(
                "node.sequence_ahead",
                node,
                draft.now_ms,
                error_code="controller_rollback",
                high_sequence=high_sequence,
                ours=cursor.sequence,
            )
        )
    reached = min(high_sequence, cursor.sequence)
    draft.update(replace(cursor, accepted_sequence=max(cursor.accepted_sequence, reached)))
    return node


def _journal_lost(draft: Draft, node: NodeRow, high_sequence: int, open_tasks: frozenset[str]) -> None:
    """The node no longer knows what it took: effects are unknown, its counters start again."""
    cursor = cursor_of(draft, node.node_id)
    draft.events.append(
        events.node_event(
            "node.journal_lost",
            node,
            draft.now_ms,
            error_code="storage_unhealthy",
            high_sequence=high_sequence,
            accepted=cursor.accepted_sequence,
        )
    )
    draft.update(replace(cursor, accepted_sequence=high_sequence, outbox_seq=0, chain_index=-1))
    for task in draft.open_tasks_on(node.node_id):
        taken = 0 < task.sequence <= cursor.accepted_sequence
        if taken and task.sequence > high_sequence and task.task_id not in open_tasks:
            if _outlives_its_agent(draft, task):
                _adopt(draft, task, node)
                continue
            message = f"node {node.name} lost its journal while it held the task"
            give_up(draft, task, "interrupted_apply", message)


def _outlives_its_agent(draft: Draft, task: TaskRow) -> bool:
    """Its container carries the attempt's id: sent again, the same attempt is adopted and not begun anew (EF-09)."""
    operation = operation_of(draft, task.operation_id)
    if draft.settings.jobs.is_job(operation.operation_type):
        return True
    row = draft.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
    return row is not None and any(step.kind == CONTAINER_RUN for step in definition_of(row.document).steps)


def _adopt(draft: Draft, task: TaskRow, node: NodeRow) -> None:
    """The same attempt under a new sequence: the node finds its container and goes on with it (EF-09, K3)."""
    back = move_task(
        draft, task, "recover", sequence=0, cancel_sequence=0, cancel_requested=0, expires_at_ms=0, envelope_digest=""
    )
    sent = assign(draft, back, node)
    if task.cancel_requested and sent.state == ASSIGNED:
        order_cancel(draft, sent, node)


def send_what_waited(draft: Draft, node: NodeRow, high_sequence: int) -> None:
    """Everything that could go to a node that has taken all below `high_sequence`."""
    for task in draft.open_tasks_on(node.node_id):
        if task.state == QUEUED:
            if waits(node, operation_of(draft, task.operation_id)):
                continue
            if free_slots(draft, operation_of(draft, task.operation_id)) > 0:
                assign(draft, task, node)
        elif task.cancel_requested:
            _send_cancel(draft, task, node, high_sequence)
        elif _never_taken(task, high_sequence):
            _send_again(draft, task, node)


def _send_again(draft: Draft, task: TaskRow, node: NodeRow) -> None:
    """The stored envelope while it is good, else a new one; none at all to a node that lacks what it takes (CG-01)."""
    if capability.missing(draft, operation_of(draft, task.operation_id), node):
        assign(draft, move_task(draft, task, "take_back", sequence=0, expires_at_ms=0, envelope_digest=""), node)
    elif task.expires_at_ms <= draft.now_ms:
        assign(draft, task, node)


def _send_cancel(draft: Draft, task: TaskRow, node: NodeRow, high_sequence: int) -> None:
    """A task that the node can no longer begin ends without it; else the order is signed again if need be."""
    if _never_taken(task, high_sequence) and task.expires_at_ms <= draft.now_ms:
        end_task(draft, task, "cancel", error_code="canceled", error_message=UNTAKEN)
    elif not task.cancel_sequence or task.cancel_sequence > high_sequence:
        order_cancel(draft, task, node)


def _never_taken(task: TaskRow, high_sequence: int) -> bool:
    return task.state == ASSIGNED and task.sequence > high_sequence


def gone(draft: Draft, command: NodeGone) -> Decision:
    node = node_of(draft, command.node_id)
    if node.session_id != command.session_id or node.connection != "connected":
        return draft.decision()
    away = replace(node, connection="lost", last_seen_ms=draft.now_ms)
    draft.update(away)
    draft.agent_nodes[node.node_id] = None
    draft.events.append(events.node_event("node.lost", away, draft.now_ms, session_id=command.session_id))
    return draft.decision()


def control_started(draft: Draft, command: ControlStarted) -> Decision:
    """No session outlives the process that held it, and no unsent envelope the key that signed it."""
    keysets.started(draft, command)
    for node in list(draft.view.connected_nodes()):
        draft.update(replace(node, connection="lost", last_seen_ms=draft.now_ms))
    return draft.decision()


def accepted(draft: Draft, command: TasksAccepted) -> Decision:
    """The node takes envelopes in the order of their sequence, so one mark stands for all below it."""
    cursor = cursor_of(draft, command.node_id)
    reached = cursor.accepted_sequence
    for task_id in command.task_ids:
        task = draft.get(TaskRow, task_id)
        if task is not None and task.node_id == command.node_id:
            reached = max(reached, task.sequence)
    if reached != cursor.accepted_sequence:
        draft.update(replace(cursor, accepted_sequence=reached))
    return draft.decision()
