"""How nodes of a rollout begin, are called off, and are brought back: the runs that it asks for."""

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.kernel import agent_runs, rollout_watch
from hostler.control.kernel.actor import KERNEL
from hostler.control.kernel.agent_commands import CancelAgentRun, RolloutSettings, StartAgentRun
from hostler.control.kernel.agent_matrix import REBOOTSTRAP, RECONCILE, UPGRADE
from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rollout_plan import parse_settings
from hostler.control.kernel.rollout_rows import end, rows_of
from hostler.control.kernel.rollout_states import (
    CHANGING,
    FAILED,
    MAY_HAVE_IT,
    PENDING,
    ROLLING_BACK,
    RUNNING,
    SKIPPED,
    SOAKING,
    SUCCEEDED,
)
from hostler.control.kernel.rows import NodeRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace
RUN = "run"  # prefix of a run's id
NO_RUN = "none"  # one was refused


def start(draft: Draft, rollout: RolloutRow, settings: RolloutSettings, rows: list[RolloutNodeRow]) -> None:
    """As many as may run at one time; the idle ones first, so that those which wait do not hold the others up."""
    pending = [row for row in rows if row.state == PENDING]
    free = settings.max_parallel - _running(draft, rollout)
    late = draft.now_ms >= rollout.wave_started_ms + settings.run_timeout_seconds * 1000
    if not pending or (free <= 0 and not late):
        return
    busy = draft.view.busy_nodes() if 0 < free < len(pending) else set()
    for row in sorted(pending, key=lambda row: (row.node_id in busy, row.node_id)):
        node = node_of(draft, row.node_id)
        if gone := rollout_watch.not_needed(node, rollout.target_version):
            end(draft, rollout, row, SKIPPED, gone)
            continue
        waits = rollout_watch.waits_for(node, row, draft.now_ms)
        if not waits and (run := agent_runs.open_run_of(draft, row.node_id)) is not None:
            waits = rollout_watch.behind(run)
        if waits and late:
            end(draft, rollout, row, SKIPPED, rollout_watch.too_late(waits))
        elif waits and waits != row.waiting_for:
            draft.update(replace(row, waiting_for=waits))
        elif not waits and free > 0:
            free -= _begin(draft, rollout, settings, row, node)


def _begin(draft: Draft, rollout: RolloutRow, settings: RolloutSettings, row: RolloutNodeRow, node: NodeRow) -> int:
    """1 where a run began. A refusal has changed nothing on the node, so the version has not failed there."""
    try:
        run_id = _run(draft, rollout, settings, row.node_id, rollout.target_version)
    except HostlerError as refusal:
        end(draft, rollout, row, SKIPPED, refusal.message, refusal.code)
        return 0
    began = replace(
        row,
        state=RUNNING,
        waiting_for="",
        from_version=node.agent_version,
        run_id=run_id,
        tries=row.tries + 1,
        started_at_ms=draft.now_ms,
        reason="",
    )
    draft.update(began)
    return 1


def _run(
    draft: Draft, rollout: RolloutRow, settings: RolloutSettings, node_id: str, version: str, *, back: bool = False
) -> str:
    command = StartAgentRun(
        actor=KERNEL,
        run_id=draft.ids.new(RUN, draft.now_ms),
        node_id=node_id,
        mode=REBOOTSTRAP,
        scenario=RECONCILE if back else UPGRADE,
        target_version=version,
        safety_policy=settings.safety_policy,
        run_timeout_seconds=settings.run_timeout_seconds,
        rollout_id=rollout.rollout_id,
        correlation_id=rollout.correlation_id,
    )
    return agent_runs.start(draft, command)


def _running(draft: Draft, rollout: RolloutRow) -> int:
    return sum(row.state in CHANGING for row in rows_of(draft, rollout, 0, rollout.waves))


def to_turn_back(draft: Draft, rollout: RolloutRow) -> list[RolloutNodeRow]:
    """Nodes that run the version by this rollout's doing and are still to be brought back."""
    if not rollout.turning_back:
        return []
    found = []
    for row in rows_of(draft, rollout, 0, rollout.waves):
        has_it = row.state in MAY_HAVE_IT or (row.state == SKIPPED and row.took_at_ms)
        if has_it and not row.rollback_run_id:
            node = node_of(draft, row.node_id)
            if node.state == "active" and node.agent_version == rollout.target_version != row.from_version:
                found.append(row)
    return found


def turn_back(draft: Draft, rollout: RolloutRow) -> None:
    """As many as may run at one time, the newest wave first."""
    settings = parse_settings(rollout.settings)
    free = settings.max_parallel - _running(draft, rollout)
    for row in sorted(to_turn_back(draft, rollout), key=lambda row: (-row.wave, row.node_id)):
        if free <= 0:
            return
        if (run := agent_runs.open_run_of(draft, row.node_id)) is not None:
            if (waits := rollout_watch.behind(run)) != row.waiting_for:
                draft.update(replace(row, waiting_for=waits))
            continue  # somebody else's; looked at again when time passes
        try:
            if not row.from_version:
                raise error("release_missing", "it never said what it ran before")
            run_id = _run(draft, rollout, settings, row.node_id, row.from_version, back=True)
        except HostlerError as refusal:
            reason = f"could not be brought back to {row.from_version or 'the version before'}: {refusal.message}"
            end(draft, rollout, replace(row, rollback_run_id=NO_RUN), FAILED, reason, refusal.code)
            continue
        draft.update(replace(row, state=ROLLING_BACK, waiting_for="", rollback_run_id=run_id, finished_at_ms=0))
        free -= 1


def stop_all(draft: Draft, rollout: RolloutRow, pending: str, soaking: str) -> None:
    """Nothing more begins: `pending` and `soaking` say why of those nodes; "" for those that go on being watched."""
    call_off(draft, rollout)
    for row in rows_of(draft, rollout, 0, rollout.waves):
        if row.state == PENDING:
            end(draft, rollout, row, SKIPPED, pending)
        elif row.state == SOAKING and soaking:
            end(draft, rollout, row, SUCCEEDED, soaking)


def call_off(draft: Draft, rollout: RolloutRow) -> None:
    """Runs that have not begun to change their node are ended: those nodes are as they were before their turn."""
    for row in rows_of(draft, rollout, 0, rollout.waves):
        if row.state != RUNNING:
            continue
        draft.update(replace(row, state=PENDING, run_id="", tries=row.tries - 1, started_at_ms=0))
        order = CancelAgentRun(
            actor=KERNEL, run_id=row.run_id, reason=f"rollout {rollout.rollout_id} stopped", correlation_id=""
        )
        try:
            agent_runs.end(draft, order)
        except HostlerError:
            draft.update(row)  # it changes the node: its end is waited for
