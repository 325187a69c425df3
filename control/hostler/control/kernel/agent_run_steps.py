"""What the next step of a lifecycle run is; see `agent_runs` for the machine, `agent_checks` for what ends it well.

An automated run stages at once, which disturbs nobody; waits until its safety policy lets it change the node; and has
the node change itself, on trial. What a person or a provider does is waited for. Both end by the same four checks.
"""

from collections.abc import Callable

import msgspec

from hostler.base.errors import HostlerError
from hostler.control.kernel import agent_checks, agent_told, agent_versions, cordons
from hostler.control.kernel.actor import KERNEL
from hostler.control.kernel.agent_matrix import AUTOMATED, DRAIN, FORCE, PROVIDER
from hostler.control.kernel.agent_operations import cancel_open, place_stage, place_update
from hostler.control.kernel.agent_progress import (
    CORDON_OWNER,
    DELIVERING,
    FAILED,
    IS_DRAINING,
    NODE_AWAY,
    NODE_BUSY,
    OPERATOR,
    ROLLED_BACK,
    SUCCEEDED,
    TRIAL,
    VERIFYING,
    WAITING,
    missing,
    progress_of,
    subject_of,
)
from hostler.control.kernel.agent_rows import AgentRunRow
from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.allocation_states import DRAINING
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, OperationRow, TokenRow
from hostler.control.kernel.tasks import node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL, RUNNING

replace = msgspec.structs.replace
LIFECYCLE = "agent_lifecycle"
ROLLED_BACK_CODE, TIMED_OUT = "upgrade_rolled_back", "upgrade_timed_out"
NOT_BOOTED = "no host that was installed with its document enrolled and spoke before its token ended"
MOST_STAGES = 5
MAX_TEXT = 500
# the node changed hands, or was away for too long: nothing was done, and the same can be asked for again
_AGAIN = frozenset({"wrong_allocation", "target_not_owned", "expired", "release_stale"})


def step(draft: Draft, run: AgentRunRow) -> None:
    """Whatever can be done for the run now; nothing, if that is waiting."""
    node = node_of(draft, subject_of(run))
    if node.state != "active":
        finish(draft, run, FAILED, "revoked", f"node {node.name} was revoked")
    elif run.kind != AUTOMATED:
        _by_hand(draft, run, node)
    elif run.operation_id:
        _changing(draft, run, node)
    else:
        _deliver(draft, run, node)


# -- bringing the package there -------------------------------------------------------------------


def _deliver(draft: Draft, run: AgentRunRow, node: NodeRow) -> None:
    if progress_of(run).back:
        _when_safe(draft, _begun(draft, run), node)
        return
    if not run.stage_operation_id:
        if not _is_here(node):
            move(draft, run, WAITING, NODE_AWAY)
            return
        run = _placed(draft, run, node, place_stage)
        if not run.finished_at_ms:
            move(draft, _begun(draft, run), DELIVERING)
        return
    staged = operation_of(draft, run.stage_operation_id)
    if staged.status not in FINAL:
        move(draft, run, DELIVERING, "" if _is_here(node) else NODE_AWAY)
    elif staged.status == "succeeded":
        _when_safe(draft, run, node)
    elif _may_stage_again(draft, run, staged):
        again = replace(run, stage_operation_id="")
        draft.update(again)
        _deliver(draft, again, node)
    else:
        finish(draft, run, FAILED, staged.error_code or "canceled", staged.error_message)


def _begun(draft: Draft, run: AgentRunRow) -> AgentRunRow:
    if run.started_at_ms:
        return run
    begun = replace(run, started_at_ms=draft.now_ms)
    draft.update(begun)
    agent_told.run(draft, begun, agent_told.STARTED)
    return begun


def _may_stage_again(draft: Draft, run: AgentRunRow, staged: OperationRow) -> bool:
    """Its address ended before the node had fetched all, or nothing was begun (a node that was away)."""
    been = progress_of(run)
    ran_out = been.url_expires_ms <= draft.now_ms
    return been.stages < MOST_STAGES and (ran_out or staged.error_code in _AGAIN)


def _when_safe(draft: Draft, run: AgentRunRow, node: NodeRow) -> None:
    """LC-14: force changes the node now; idle and drain when nothing runs there, and let nothing new in meanwhile."""
    if not _is_here(node):
        move(draft, run, WAITING, NODE_AWAY)
        return
    if run.safety_policy == DRAIN:
        run = _hold(draft, run)
    if run.safety_policy != FORCE and _is_busy(draft, node):
        move(draft, run, WAITING, IS_DRAINING if run.safety_policy == DRAIN else NODE_BUSY)
        return
    if run.safety_policy != FORCE:
        run = _hold(draft, run)
    run = _placed(draft, run, node, place_update)
    if not run.finished_at_ms:
        move(draft, run, DELIVERING)


def _placed(
    draft: Draft, run: AgentRunRow, node: NodeRow, place: Callable[[Draft, AgentRunRow, NodeRow], AgentRunRow]
) -> AgentRunRow:
    """The run with its operation, or ended by what that was refused with: this decision may be somebody else's."""
    try:
        return place(draft, run, node)
    except HostlerError as err:
        return finish(draft, run, FAILED, err.code, err.message)


def _is_here(node: NodeRow) -> bool:
    return node.connection == "connected" and not node.hold


def _is_busy(draft: Draft, node: NodeRow) -> bool:
    """Something was sent to it that has not ended, but for what a run itself asked for."""
    return any(
        task.state in (ASSIGNED, RUNNING) and operation_of(draft, task.operation_id).trigger_source != LIFECYCLE
        for task in draft.open_tasks_on(node.node_id)
    )


# -- the node changes itself ----------------------------------------------------------------------


def _changing(draft: Draft, run: AgentRunRow, node: NodeRow) -> None:
    update = operation_of(draft, run.operation_id)
    if update.status in FINAL and update.status != "succeeded":
        _was_not_done(draft, run, node, update)
        return
    done = update.status == "succeeded"
    if done and run.state != VERIFYING:
        run = _verifying(draft, run)
    elif not done and agent_checks.is_new(draft, run, node):
        # a trial that goes on is no trial that hangs: its end is for the node to find (U2)
        run = replace(run, deadline_ms=max(run.deadline_ms, draft.now_ms + draft.settings.agents.switch_ms))
        draft.update(run)
        run = move(draft, run, TRIAL)
    elif not done:
        return
    _judge(draft, run, ends=done)


def _was_not_done(draft: Draft, run: AgentRunRow, node: NodeRow, update: OperationRow) -> None:
    code = update.error_code or "canceled"
    if code in _AGAIN and not update.started_at_ms and progress_of(run).stages < MOST_STAGES:
        again = replace(run, operation_id="", stage_operation_id="")
        draft.update(again)
        _deliver(draft, again, node)
        return
    finish(draft, run, ROLLED_BACK if code == ROLLED_BACK_CODE else FAILED, code, update.error_message)


def came_back(draft: Draft, run: AgentRunRow, code: str, reason: str) -> None:
    """The version before tells that it is there again (EV-09)."""
    finish(draft, run, ROLLED_BACK, code or ROLLED_BACK_CODE, reason)


def _by_hand(draft: Draft, run: AgentRunRow, node: NodeRow) -> None:
    run = _begun(draft, run)
    if run.state == OPERATOR:
        if not agent_checks.is_new(draft, run, node):
            _let_people_know(draft, run, node)
            return
        run = _verifying(draft, run)
    _judge(draft, run, ends=True)


def _let_people_know(draft: Draft, run: AgentRunRow, node: NodeRow) -> None:
    """LC-14 for what people do: whether the node may be touched now; a drain begins with the run."""
    if run.safety_policy == DRAIN:
        run = _hold(draft, run)
    waits = run.safety_policy != FORCE and _is_busy(draft, node)
    move(draft, run, OPERATOR, "" if not waits else IS_DRAINING if run.safety_policy == DRAIN else NODE_BUSY)


def _verifying(draft: Draft, run: AgentRunRow) -> AgentRunRow:
    """The change itself is over: new work may come, and the checks have their own time."""
    run = _let_go(draft, run)
    run = replace(run, deadline_ms=draft.now_ms + draft.settings.agents.verify_ms)
    draft.update(run)
    return move(draft, run, VERIFYING)


def _judge(draft: Draft, run: AgentRunRow, *, ends: bool) -> None:
    """LC-21. While a trial lasts the checks are only noted: the node itself decides how it ends."""
    run, refused = agent_checks.look(draft, run, node_of(draft, subject_of(run)), ends=ends)
    if not ends:
        return
    if refused:
        finish(draft, run, FAILED, *refused)
    elif not missing(run):
        finish(draft, run, SUCCEEDED)


# -- time, and the end ----------------------------------------------------------------------------


def timed_out(draft: Draft, run: AgentRunRow) -> None:
    if run.state == VERIFYING:
        why = f"it did not come to be: {', '.join(missing(run))}"
    elif run.state == OPERATOR:
        why = "nobody brought the version there in time" if run.kind != PROVIDER else NOT_BOOTED
    elif run.operation_id:
        why = "the node did not say in time how its change ended"
    else:
        why = f"it could not be delivered in time: {run.waiting_for or run.state}"
    finish(draft, run, FAILED, TIMED_OUT, why)


def finish(
    draft: Draft, run: AgentRunRow, state: str, code: str = "", message: str = "", *, told: bool = True
) -> AgentRunRow:
    """Ends a run, for good: what it held is let go, what it asked for and nobody began is called off."""
    over = replace(
        _let_go(draft, run),
        state=state,
        waiting_for="",
        finished_at_ms=draft.now_ms,
        error_code=code,
        error_message=message[:MAX_TEXT],
    )
    draft.update(over)
    cancel_open(draft, over)
    _token_ends(draft, over)
    agent = agent_versions.agent_of(draft, subject_of(run))
    draft.update(replace(agent, last_delivery_result=state))
    if state != SUCCEEDED or agent.channel == agent_versions.PINNED:
        agent_versions.restore(draft, agent.node_id)
    if told:
        agent_told.run(draft, over)
    if state == SUCCEEDED:
        agent_told.run(draft, over, agent_told.COMPLETED)
    elif state in (FAILED, ROLLED_BACK):
        agent_told.run(draft, over, agent_told.NOT_DONE)
    draft.ended_runs[run.run_id] = None
    return over


def move(draft: Draft, run: AgentRunRow, state: str, waiting_for: str = "") -> AgentRunRow:
    """The run as it is from here on; it is told of when that is news."""
    if (run.state, run.waiting_for) == (state, waiting_for):
        return run
    moved = replace(run, state=state, waiting_for=waiting_for)
    draft.update(moved)
    agent = agent_versions.agent_of(draft, subject_of(run))
    draft.update(replace(agent, last_delivery_result=state))
    agent_told.run(draft, moved)
    return moved


def _hold(draft: Draft, run: AgentRunRow) -> AgentRunRow:
    if run.cordoned:
        return run
    _wish(draft, run, DRAINING, f"lifecycle run {run.run_id}")
    held = replace(run, cordoned=1)
    draft.update(held)
    return held


def _let_go(draft: Draft, run: AgentRunRow) -> AgentRunRow:
    if not run.cordoned:
        return run
    if node_of(draft, run.node_id).state == "active":
        _wish(draft, run, "", "")
    free = replace(run, cordoned=0)
    draft.update(free)
    return free


def _wish(draft: Draft, run: AgentRunRow, kind: str, reason: str) -> None:
    cordons.wish(draft, CordonNode(actor=KERNEL, node_id=run.node_id, owner=CORDON_OWNER, kind=kind, reason=reason))


def _token_ends(draft: Draft, run: AgentRunRow) -> None:
    """A token that nobody used is of no use after its run."""
    token = draft.get(TokenRow, progress_of(run).token_id)
    if token is not None and not token.used_at_ms:
        draft.update(replace(token, expires_at_ms=draft.now_ms))
