"""Rollouts as people move them: made, approved, paused, resumed, aborted, turned back (API-20); see `rollout_flow`.

running ─▶ awaiting_approval ─▶ running …    ─▶ succeeded
   └─▶ paused (a person, or what was watched for) ─▶ running
   └─▶ aborted, once its last run has ended       └─▶ rolling_back ─▶ rolled_back, or failed where a node stays
"""

from collections.abc import Callable, Iterable

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import changes, rollout_plan
from hostler.control.kernel import rollout_events as told
from hostler.control.kernel.agent_commands import CreateRollout, MoveRollout
from hostler.control.kernel.agent_rows import NodeAgentRow, RolloutNodeRow, RolloutRow
from hostler.control.kernel.agent_versions import PINNED
from hostler.control.kernel.allocation_states import OK, fits
from hostler.control.kernel.events import json_text
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rollout_flow import begin_wave, settle_all
from hostler.control.kernel.rollout_plan import Candidate, Plan
from hostler.control.kernel.rollout_rows import MAX_REASON, begin_again, end, rollout_of, rows_of, stays
from hostler.control.kernel.rollout_runs import call_off, stop_all, to_turn_back
from hostler.control.kernel.rollout_states import (
    ABORTED,
    AWAITING_APPROVAL,
    MAY,
    OPEN,
    PAUSED,
    ROLLING_BACK,
    RUNNING,
    SKIPPED,
)
from hostler.control.kernel.rows import NodeRow

replace = msgspec.structs.replace
MAX_NAMED = 10_000


def create(draft: Draft, command: CreateRollout) -> Decision:
    """→ `Plan`. With `dry_run` nothing else.

    Refused as `invalid_request`, `release_missing`, `unknown_target`, `empty_target`, `rollout_open`.
    """
    rollout_plan.check(command.settings)
    suites = {release.suite for release in draft.view.releases_of(command.target_version)}
    if not suites:
        what = f"no release of {command.target_version[:64]!r} is published"
        raise error("release_missing", what, pointer="/version")
    candidates = _candidates(draft, command, suites)
    planned = rollout_plan.waves_of(candidates, command.settings)
    waves = rollout_plan.wave_list(planned)
    if not waves:
        why = next((f"; {node.name}: {node.skip}" for node in planned if node.skip), "")
        raise error("empty_target", f"no node needs that version, or none can get it{why}", pointer="/nodes")
    _refuse_open(draft, (node.node_id for node in planned if not node.skip))
    skipped = tuple(node for node in planned if node.skip)
    plan = Plan(
        rollout_id="" if command.dry_run else command.rollout_id,
        target_version=command.target_version,
        settings=command.settings,
        waves=waves,
        skipped=skipped,
        nodes=planned,
    )
    if not command.dry_run:
        _make(draft, command, plan)
    return draft.decision(plan)


def _make(draft: Draft, command: CreateRollout, plan: Plan) -> None:
    waves = plan.waves[-1].index + 1
    rollout = RolloutRow(
        rollout_id=command.rollout_id,
        target_version=command.target_version,
        settings=json_text(command.settings),
        waves=waves,
        requested_by=command.actor.name,
        correlation_id=command.correlation_id,
        created_at_ms=draft.now_ms,
        approved_wave=rollout_plan.first_approved(command.settings, waves),
    )
    draft.insert(rollout)
    change = changes.made(
        version=command.target_version, nodes=sum(len(wave.nodes) for wave in plan.waves), waves=len(plan.waves)
    )
    told.audited(draft, rollout, "rollout.created", "rollout.create", change, command.actor, skipped=len(plan.skipped))
    for node in plan.nodes:
        row = RolloutNodeRow(
            rollout_id=rollout.rollout_id, node_id=node.node_id, wave=node.wave, boundary=node.boundary
        )
        draft.insert(row)
        if node.skip:
            end(draft, rollout, row, SKIPPED, node.skip, node.error_code)
    begin_wave(draft, rollout, 0)
    draft.rollouts[rollout.rollout_id] = None


def _candidates(draft: Draft, command: CreateRollout, suites: set[str]) -> list[Candidate]:
    busy = draft.view.busy_nodes()
    return [_candidate(draft, command, node, suites, node.node_id not in busy) for node in _chosen(draft, command)]


def _candidate(draft: Draft, command: CreateRollout, node: NodeRow, suites: set[str], idle: bool) -> Candidate:
    agent = draft.get(NodeAgentRow, node.node_id)
    suite = agent.suite if agent else ""
    skip, code = "", ""
    if node.state != "active":
        skip, code = "its identity is revoked", "revoked"
    elif node.agent_version == command.target_version:
        skip = "it runs that version already"
    elif suite and suite not in suites:
        skip, code = f"there is no package of that version for {suite}", "release_missing"
    elif not command.nodes and agent and _is_pinned_elsewhere(agent, command.target_version):
        skip = f"it is pinned to {agent.pinned_version}, and was not named"
    return Candidate(
        node_id=node.node_id,
        name=node.name,
        boundary=rollout_plan.boundary_of(node, command.settings.boundary),
        suite=suite,
        connected=node.connection == "connected",
        healthy=node.health == OK and not node.hold,
        idle=idle,
        skip=skip,
        error_code=code,
    )


def _is_pinned_elsewhere(agent: NodeAgentRow, version: str) -> bool:
    return agent.channel == PINNED and agent.pinned_version != version


def _chosen(draft: Draft, command: CreateRollout) -> list[NodeRow]:
    """Those named once each; without names all, or with neither names nor labels those with another version."""
    if len(command.nodes) > MAX_NAMED:
        raise error("invalid_request", f"a rollout names {MAX_NAMED} nodes at most", pointer="/nodes")
    if command.nodes:
        named = {node.node_id: node for node in (_named(draft, name) for name in command.nodes)}
        return [node for node in named.values() if fits(node, command.labels, ())]
    active = (node for node in draft.current(draft.view.all_nodes()) if node.state == "active")
    if command.labels:
        return [node for node in active if fits(node, command.labels, ())]
    return [node for node in active if node.agent_version != command.target_version]


def _named(draft: Draft, name: str) -> NodeRow:
    found = draft.get(NodeRow, name) or next(iter(draft.view.nodes_named(name)), None)
    if found is None:
        raise error("unknown_target", f"there is no node {name[:64]!r}", pointer="/nodes")
    return found


def _refuse_open(draft: Draft, node_ids: Iterable[str], own: str = "") -> None:
    """A node is in one rollout at a time."""
    taken = draft.view.nodes_in_rollouts()
    for node_id in node_ids:
        if taken.get(node_id, own) != own:
            node = draft.get(NodeRow, node_id)
            name = node.name if node else node_id
            raise error("rollout_open", f"node {name} is in rollout {taken[node_id]}", node_id=node_id)


# -- moved by people ------------------------------------------------------------------------------


def move(draft: Draft, command: MoveRollout) -> Decision:
    """→ the rollout's state.

    Raises:
        HostlerError: `not_found`, `rollout_over`, `rollout_moved`, `rollout_open`, `invalid_request`.
    """
    rollout = draft.get(RolloutRow, command.rollout_id)
    if rollout is None:
        raise error("not_found", f"there is no rollout {command.rollout_id[:64]!r}")
    moved = _MOVES.get(command.action)
    if moved is None:
        raise error("invalid_request", f"a rollout cannot be told to {command.action[:32]!r}", pointer="/action")
    if rollout.state not in MAY[command.action] or (rollout.state == ABORTED and not rollout.finished_at_ms):
        why = f"{command.action} does not follow from there"
        if command.action == "approve" and 0 <= command.wave <= rollout.approved_wave:
            why = f"wave {command.wave} was approved already"
        raise error("rollout_over", f"rollout {rollout.rollout_id} is {rollout.state}, and {why}")
    after = moved(draft, rollout, command)
    draft.update(after)
    change = changes.of_rows(
        rollout, after, "state", "reason", "error_code", "wave", "approved_wave", "failures", "turning_back"
    )
    told.audited(
        draft,
        after,
        "rollout.changed",
        f"rollout.{command.action}",
        change,
        command.actor,
        what=command.action,
        reason=command.reason[:MAX_REASON],
        wave=after.wave,
        automatic=False,
    )
    if after.state == RUNNING:
        begin_wave(draft, after, after.wave)
    draft.rollouts[rollout.rollout_id] = None
    settle_all(draft)
    return draft.decision(rollout_of(draft, rollout.rollout_id).state)


def _approve(_: Draft, rollout: RolloutRow, command: MoveRollout) -> RolloutRow:
    if command.wave != rollout.wave:  # somebody else was faster, or it is an old order that comes again
        what = f"wave {rollout.wave} of rollout {rollout.rollout_id} waits for approval, not wave {command.wave}"
        raise error("rollout_moved", what, pointer="/wave")
    settings = rollout_plan.parse_settings(rollout.settings)
    upto = rollout_plan.approved_by(settings, rollout.wave, rollout.waves)
    return replace(rollout, state=RUNNING, approved_wave=upto, reason="")


def _pause(draft: Draft, rollout: RolloutRow, command: MoveRollout) -> RolloutRow:
    call_off(draft, rollout)
    reason = command.reason[:MAX_REASON] or f"paused by {command.actor.name}"
    return replace(rollout, state=PAUSED, reason=reason)


def _resume(draft: Draft, rollout: RolloutRow, command: MoveRollout) -> RolloutRow:
    """What was brought back goes again; what failed only if it is asked for, and then once more (LC-16)."""
    rows = rows_of(draft, rollout, 0, rollout.waves)
    moving = sum(row.state == ROLLING_BACK for row in rows)
    if moving or to_turn_back(draft, rollout):
        raise error("rollout_over", "nodes of it are still on their way back", hint="wait for them, then resume")
    begin_again(draft, rows, rollout.wave, retry_failed=command.retry_failed)
    again = [row.wave for row in rows_of(draft, rollout, 0, rollout.waves) if row.state in OPEN]
    wave = min(again, default=rollout.wave)
    return replace(
        rollout,
        state=RUNNING if wave <= rollout.approved_wave else AWAITING_APPROVAL,
        wave=wave,
        soaking_until_ms=0,
        failures=0,
        turning_back=0,
        reason="",
        error_code="",
        failed_node_id="",
    )


def _abort(draft: Draft, rollout: RolloutRow, command: MoveRollout) -> RolloutRow:
    """What runs is left to its end."""
    reason = command.reason[:MAX_REASON] or f"aborted by {command.actor.name}"
    after = replace(rollout, state=ABORTED, turning_back=0, reason=reason)
    stop_all(draft, rollout, "the rollout was aborted before its turn", "not watched to the end: aborted")
    return after


def _roll_back(draft: Draft, rollout: RolloutRow, command: MoveRollout) -> RolloutRow:
    """Also of one that is over: what is wrong with a version may show late."""
    if rollout.finished_at_ms:
        rows = rows_of(draft, rollout, 0, rollout.waves)
        _refuse_open(draft, (row.node_id for row in rows if row.state != SKIPPED))
    for row in rows_of(draft, rollout, 0, rollout.waves):
        if stays(row):
            draft.update(replace(row, rollback_run_id=""))  # once more, as a person asks
    stop_all(draft, rollout, "the rollout was turned back before its turn", "")
    reason = command.reason[:MAX_REASON] or f"turned back by {command.actor.name}"
    return replace(rollout, state=ROLLING_BACK, turning_back=1, reason=reason, finished_at_ms=0)


_MOVES: dict[str, Callable[[Draft, RolloutRow, MoveRollout], RolloutRow]] = {
    "approve": _approve,
    "pause": _pause,
    "resume": _resume,
    "abort": _abort,
    "rollback": _roll_back,
}
