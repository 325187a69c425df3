"""Lifecycle runs: how one begins, how it ends, and what moves it in between (LC-07..14, LC-21, API-15).

    waiting ─▶ delivering ─▶ (waiting) ─▶ delivering ─▶ trial ─▶ verifying ─▶ succeeded
    awaiting_operator ─────────────────────────────────────────▶ verifying ─▶ succeeded
    from anywhere ─▶ failed;  delivering, trial ─▶ rolled_back;  before anything changed ─▶ canceled

`agent_run_steps` says what the next step of a run is. Whatever may move one marks its node in `draft.agent_nodes`:
a task's end, a hello, a report, a certificate that is proved; time marks by `AdvanceAgents`.
"""

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import agent_checks, agent_releases, agent_run_steps, agent_told, agent_versions
from hostler.control.kernel.agent_commands import CancelAgentRun, StartAgentRun
from hostler.control.kernel.agent_matrix import AUTOMATED, BROKERED, PROVIDER, Plan, plan
from hostler.control.kernel.agent_progress import CANCELED, OPERATOR, RUN_ENDED, WAITING, Progress
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.changes import made, of_rows
from hostler.control.kernel.events import json_text
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import NodeRow, TokenRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace
ADVANCE_LIMIT = 500
MAX_REASON = 500


def begin(draft: Draft, command: StartAgentRun) -> Decision:
    """→ run id."""
    return draft.decision(start(draft, command))


def start(draft: Draft, command: StartAgentRun) -> str:
    """→ run id. It takes its first step when the decision is made, and needs nobody to look after it from then on.

    Raises:
        HostlerError: `not_found`, `revoked`, `invalid_request`, `agent_run_open`, `release_missing`,
            `downgrade_denied`, `invalid_config` where packages have no public address.
    """
    node = node_of(draft, command.node_id)
    if node.state != "active":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    how = plan(command.scenario, command.mode, command.safety_policy)
    agent = agent_versions.agent_of(draft, node.node_id)
    open_run = open_run_of(draft, node.node_id)
    if open_run is not None:
        raise error("agent_run_open", f"run {open_run.run_id} of node {node.name} is {open_run.state}")
    target = _target(command, how, agent, node)
    back = _check_target(draft, how, agent, node, target)
    run = _row(draft, command, how, node, target, back=back)
    draft.insert(run)
    if how.token != bool(command.token_id):
        raise error("internal_error", f"{command.scenario} by {command.mode} takes {'a' if how.token else 'no'} token")
    if command.token_id:
        _token(draft, command, node)
    wanted = target if how.release else agent.desired_version
    draft.update(
        replace(
            agent,
            run_id=run.run_id,
            desired_version=wanted,
            delivery_mode=run.mode,
            last_delivery_attempt_ms=draft.now_ms,
            last_delivery_result=run.state,
            last_delivery_correlation_id=run.correlation_id,
        )
    )
    agent_versions.tell_desired(draft, agent, wanted)
    change = made(run_id=run.run_id, mode=run.mode, scenario=run.scenario, to_version=target, token=command.token_id)
    agent_told.run(draft, run, actor=command.actor, action="agent.run.start", change=change)
    draft.agent_nodes[node.node_id] = None
    return run.run_id


def _target(command: StartAgentRun, how: Plan, agent: NodeAgentRow, node: NodeRow) -> str:
    """Where the package stays, the version does: the run would wait in vain for the one that the node should run."""
    if how.release:
        return command.target_version or agent.desired_version or node.agent_version
    if command.target_version not in ("", node.agent_version):
        raise error(
            "invalid_request",
            f"{command.scenario} by {command.mode} leaves version {node.agent_version or 'that lies there'} as it is",
            pointer="/target_version",
            hint="name no version here; bring another one afterwards, or by a reimage",
        )
    return node.agent_version


def _check_target(draft: Draft, how: Plan, agent: NodeAgentRow, node: NodeRow, target: str) -> bool:
    """→ whether the node only returns to what lies there."""
    if not target and how.release:
        raise error("invalid_request", "name the version to bring the node to", pointer="/target_version")
    if how.kind != BROKERED and not draft.settings.agents.public_url:
        raise error(
            "invalid_config",
            "this control plane has no address at which nodes could fetch packages",
            hint="set public_url under [updates] in control.toml",
        )
    if how.kind == AUTOMATED:
        return agent_releases.is_return(draft, agent, node, target)
    if how.release and how.kind != BROKERED:
        agent_releases.release_for(draft, target, agent.suite)  # by hand, apt and whoever is at it decide
    return False


def _row(draft: Draft, command: StartAgentRun, how: Plan, node: NodeRow, target: str, *, back: bool) -> AgentRunRow:
    by_itself = how.kind == AUTOMATED
    seen = Progress(
        instance_id=node.instance_id,
        changed_ms=draft.now_ms,
        token_id=command.token_id,
        back=back,
    )
    return AgentRunRow(
        run_id=command.run_id,
        node_id=node.node_id,
        mode=command.mode,
        scenario=command.scenario,
        target_version=target,
        from_version=node.agent_version,
        kind=how.kind,
        safety_policy=command.safety_policy,
        rollout_id=command.rollout_id,
        requested_by=command.actor.name,
        correlation_id=command.correlation_id,
        created_at_ms=draft.now_ms,
        state=WAITING if by_itself else OPERATOR,
        next_action="{}" if by_itself else json_text(_next_action(how, draft, node, target)),
        baseline_serial=agent_checks.proved_serial(draft, node.node_id),
        progress=json_text(seen),
        deadline_ms=_deadline(draft, command, how),
    )


def _deadline(draft: Draft, command: StartAgentRun, how: Plan) -> int:
    limits = draft.settings.agents
    most_ms = command.run_timeout_seconds * 1000 or (limits.run_ms if how.kind == AUTOMATED else limits.operator_ms)
    at = draft.now_ms + most_ms
    if how.kind == PROVIDER and command.token_expires_at_ms:
        # nobody enrols with it after that; who did in the last moment may yet say hello
        at = min(at, command.token_expires_at_ms + limits.verify_ms)
    return at


def _next_action(how: Plan, draft: Draft, node: NodeRow, target: str) -> dict[str, object]:
    """What is to be done outside, without addresses and secrets: those are made when somebody looks."""
    said: dict[str, object] = {"kind": how.kind, "action": how.action, "reason": how.reason}
    if how.instead:
        said["instead"] = list(how.instead)
    if how.release and how.kind != BROKERED:
        agent = agent_versions.agent_of(draft, node.node_id)
        release = agent_releases.release_for(draft, target, agent.suite)
        names = ("version", "suite", "commit_id", "file", "sha256", "size_bytes")
        said["package"] = {name: getattr(release, name) for name in names}
    return said


def _token(draft: Draft, command: StartAgentRun, node: NodeRow) -> None:
    """Whoever enrols with it takes the node's place, see `nodes.enroll`."""
    draft.insert(
        TokenRow(
            token_id=command.token_id,
            token_sha256=command.token_sha256,
            node_name=node.name,
            org_id=POOL if node.pool else node.org_id,
            project_id=POOL if node.pool else node.project_id,
            labels=node.labels,
            created_by=command.actor.name,
            created_at_ms=draft.now_ms,
            expires_at_ms=command.token_expires_at_ms,
            node_id=node.node_id,
        )
    )


def open_run_of(draft: Draft, node_id: str) -> AgentRunRow | None:
    agent = draft.get(NodeAgentRow, node_id)
    run = draft.get(AgentRunRow, agent.run_id) if agent is not None and agent.run_id else None
    return run if run is not None and not run.finished_at_ms else None


def cancel(draft: Draft, command: CancelAgentRun) -> Decision:
    """→ the run's state."""
    return draft.decision(end(draft, command))


def end(draft: Draft, command: CancelAgentRun) -> str:
    """→ the run's state. Ends a run that has not begun to change its node; one that was ended before stays so.

    Raises:
        HostlerError: `not_found`; `agent_run_open` while the node changes; `operation_final` once it is over.
    """
    run = draft.get(AgentRunRow, command.run_id)
    if run is None:
        raise error("not_found", f"there is no lifecycle run {command.run_id}")
    if run.state == CANCELED:
        return run.state
    if run.state in RUN_ENDED:
        raise error("operation_final", f"run {run.run_id} is {run.state}")
    if run.operation_id:
        raise error(
            "agent_run_open",
            f"run {run.run_id} is changing the node",
            hint="its trial ends by itself, for good or by a return",
        )
    over = agent_run_steps.finish(draft, run, CANCELED, "canceled", command.reason[:MAX_REASON], told=False)
    change = of_rows(run, over, "state", "waiting_for")
    agent_told.run(draft, over, actor=command.actor, action="agent.run.cancel", change=change)
    return over.state


def follow(draft: Draft) -> bool:
    """Takes every step that can be taken now. → whether there was any."""
    moved = False
    while draft.agent_nodes:
        node_id = next(iter(draft.agent_nodes))
        del draft.agent_nodes[node_id]
        run = open_run_of(draft, node_id)
        if run is not None:
            agent_run_steps.step(draft, run)
            moved = True
    return moved


def advance(draft: Draft) -> int:
    """Runs whose time is over. → how many."""
    due = 0
    for run in draft.current(draft.view.due_agent_runs(draft.now_ms, ADVANCE_LIMIT)):
        if not run.finished_at_ms and run.deadline_ms <= draft.now_ms:
            agent_run_steps.timed_out(draft, run)
            due += 1
    return due
