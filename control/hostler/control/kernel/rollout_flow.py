"""What moves rollouts by themselves: runs that end, nodes that change, time that passes (LC-15, LC-16, LC-21).

Every decision ends here (`follow`), in the transaction of what caused it; all there is to know stands in the rows, so
that a control plane which was away goes on where it was (DM-07).

    pending ─▶ running ─▶ soaking ─▶ succeeded          soaking, succeeded, failed ─▶ rolling_back ─▶ rolled_back
       └─▶ skipped   └─▶ failed, rolled_back
"""

import msgspec

from hostler.control.kernel import rollout_events as told
from hostler.control.kernel import rollout_plan, rollout_watch
from hostler.control.kernel.agent_commands import RolloutSettings
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow, RolloutNodeRow, RolloutRow
from hostler.control.kernel.changes import of_rows
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rollout_rows import MAX_REASON, end, is_failure, rollout_of, rows_of
from hostler.control.kernel.rollout_runs import call_off, start, to_turn_back, turn_back
from hostler.control.kernel.rollout_states import (
    ABORTED,
    AWAITING_APPROVAL,
    FAILED,
    OPEN,
    PAUSED,
    PENDING,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    SKIPPED,
    SOAKING,
    SUCCEEDED,
)
from hostler.control.kernel.rows import NodeRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace
AGAIN_MS = 60_000  # after the server's own trouble


def follow(draft: Draft) -> bool:
    """Whether anything was looked at."""
    _notice(draft)
    looked = bool(draft.ended_runs or draft.rollouts)
    while draft.ended_runs or draft.rollouts:
        while draft.ended_runs:
            run_id = next(iter(draft.ended_runs))
            del draft.ended_runs[run_id]
            _run_ended(draft, run_id)
        settle_all(draft)
    return looked


def advance(draft: Draft) -> None:
    """Time has passed: soaks, waits and their limits are looked at, of every rollout that is open."""
    for rollout in draft.current(draft.view.open_rollouts()):
        draft.rollouts[rollout.rollout_id] = None


def settle_all(draft: Draft) -> None:
    while draft.rollouts:
        rollout_id = next(iter(draft.rollouts))
        del draft.rollouts[rollout_id]
        _settle(draft, rollout_of(draft, rollout_id))


def _notice(draft: Draft) -> None:
    """Nodes whose version, health or standing this decision changes are seen at once, and not only when time passes."""
    moved = {row.node_id for before, row in draft.changed(NodeRow) if rollout_watch.differs(before, row)}
    moved |= {row.node_id for before, row in draft.changed(NodeAgentRow) if before.drift_state != row.drift_state}
    for node_id in sorted(moved - draft.noticed):
        draft.noticed.add(node_id)
        for part in draft.view.open_rollout_nodes_of(node_id):
            draft.rollouts[part.rollout_id] = None


# -- a run ends -----------------------------------------------------------------------------------


def _run_ended(draft: Draft, run_id: str) -> None:
    run = draft.get(AgentRunRow, run_id)
    row = draft.get(RolloutNodeRow, (run.rollout_id, run.node_id)) if run and run.rollout_id else None
    if run is None or row is None:
        return
    rollout = rollout_of(draft, row.rollout_id)
    draft.rollouts[rollout.rollout_id] = None
    if row.state == ROLLING_BACK and row.rollback_run_id == run_id:
        _came_back(draft, rollout, row, run)
    elif row.state == RUNNING and row.run_id == run_id:
        _went(draft, rollout, row, run)


def _went(draft: Draft, rollout: RolloutRow, row: RolloutNodeRow, run: AgentRunRow) -> None:
    verdict = rollout_watch.of_run(run, node_of(draft, row.node_id), rollout.target_version)
    if verdict.state == SOAKING:
        draft.update(replace(row, state=SOAKING, took_at_ms=draft.now_ms, waiting_for=""))
    elif verdict.state == PENDING:
        waits = {"waiting_for": verdict.waiting_for, "not_before_ms": draft.now_ms + AGAIN_MS}
        draft.update(replace(row, state=PENDING, reason=verdict.reason[:MAX_REASON], **waits))
    else:
        end(draft, rollout, row, verdict.state, verdict.reason, verdict.error_code, verdict.check)


def _came_back(draft: Draft, rollout: RolloutRow, row: RolloutNodeRow, run: AgentRunRow) -> None:
    """`succeeded` of a run towards the version before."""
    if run.state == SUCCEEDED:
        reason = row.reason if row.error_code else f"brought back to {row.from_version}"
        end(draft, rollout, row, ROLLED_BACK, reason, row.error_code, row.failed_check)
    else:
        reason = f"could not be brought back to {row.from_version}: {run.error_message or run.state}"
        end(draft, rollout, row, FAILED, reason, run.error_code or "upgrade_timed_out")


# -- a rollout goes on ----------------------------------------------------------------------------


def _settle(draft: Draft, rollout: RolloutRow) -> None:
    if rollout.finished_at_ms:
        return
    _look(draft, rollout)
    _judge(draft, rollout.rollout_id)
    rollout = rollout_of(draft, rollout.rollout_id)
    if rollout.turning_back:
        turn_back(draft, rollout)
    while rollout.state == RUNNING and _go_on(draft, rollout):
        rollout = rollout_of(draft, rollout.rollout_id)
    _finish(draft, rollout_of(draft, rollout.rollout_id))


def _look(draft: Draft, rollout: RolloutRow) -> None:
    """At nodes that have the version and are watched: one that loses it, its health or its renewal has failed."""
    for row in rows_of(draft, rollout, 0, rollout.waves):
        if row.state != SOAKING:
            continue
        if rollout.state == ABORTED:
            end(draft, rollout, row, SUCCEEDED, "not watched to the end: aborted")
            continue
        agent = draft.get(NodeAgentRow, row.node_id)
        found = rollout_watch.of_soaking(node_of(draft, row.node_id), agent, row, rollout.target_version)
        if found is not None:
            end(draft, rollout, row, found.state, found.reason, found.error_code, found.check)


def _judge(draft: Draft, rollout_id: str) -> None:
    """Pauses a rollout whose failures are too many, once; a person's pause becomes one that turns back."""
    rollout = rollout_of(draft, rollout_id)
    if rollout.error_code or rollout.state not in (RUNNING, AWAITING_APPROVAL, PAUSED) or not rollout.failures:
        return
    settings = rollout_plan.parse_settings(rollout.settings)
    rows = [row for row in rows_of(draft, rollout, rollout.wave, rollout.wave) if not row.forgiven]
    failed = sum(map(is_failure, rows))
    left = sum(row.state != SKIPPED and not is_failure(row) for row in rows)
    if rollout.failures >= settings.max_failures:
        pause_itself(draft, rollout, f"{rollout.failures} failed of {settings.max_failures} that pause it")
    elif failed and rollout_plan.out_of_reach(0, failed, left, settings.success_percent):
        pause_itself(draft, rollout, f"wave {rollout.wave} cannot reach {settings.success_percent} % any more")


def pause_itself(draft: Draft, rollout: RolloutRow, why: str, error_code: str = "") -> None:
    """With the last failure as the reason: which node, which check, which code; without one, `error_code` says it."""
    settings = rollout_plan.parse_settings(rollout.settings)
    failed = draft.get(RolloutNodeRow, (rollout.rollout_id, rollout.failed_node_id)) if rollout.failed_node_id else None
    said = why
    if failed is not None and not error_code:
        check = f" ({failed.failed_check})" if failed.failed_check else ""
        said = f"node {node_of(draft, failed.node_id).name}{check}: {failed.reason}; {why}"
    after = replace(
        rollout,
        state=PAUSED,
        reason=said[:MAX_REASON],
        error_code=error_code or (failed.error_code if failed else "") or "upgrade_timed_out",
        turning_back=int(settings.auto_rollback and not error_code),
        soaking_until_ms=0,
    )
    draft.update(after)
    call_off(draft, after)
    told.audited(
        draft,
        after,
        "rollout.changed",
        "rollout.pause",
        of_rows(rollout, after, "state", "reason", "error_code", "turning_back"),
        what="paused",
        automatic=True,
        reason=after.reason,
        error_code=after.error_code,
        failed_node_id=rollout.failed_node_id,
        failed_check=failed.failed_check if failed else "",
        wave=rollout.wave,
    )


def _go_on(draft: Draft, rollout: RolloutRow) -> bool:
    """One step of the wave in progress; whether there may be another one at once."""
    settings = rollout_plan.parse_settings(rollout.settings)
    rows = rows_of(draft, rollout, rollout.wave, rollout.wave)
    start(draft, rollout, settings, rows)
    rows = rows_of(draft, rollout, rollout.wave, rollout.wave)
    if any(row.state in (PENDING, RUNNING, ROLLING_BACK) for row in rows):
        return False
    soaking = [row for row in rows if row.state == SOAKING]
    if soaking and not rollout.soaking_until_ms:
        rollout = replace(rollout, soaking_until_ms=draft.now_ms + settings.soak_seconds * 1000)
        draft.update(rollout)
    if draft.now_ms < rollout.soaking_until_ms or _still_away(draft, rollout, settings, soaking):
        return False
    for row in soaking:
        end(draft, rollout, row, SUCCEEDED, f"runs {rollout.target_version}, watched for {settings.soak_seconds} s")
    return _wave_over(draft, rollout, settings)


def _still_away(draft: Draft, rollout: RolloutRow, settings: RolloutSettings, soaking: list[RolloutNodeRow]) -> bool:
    """Nodes that have the version and are away are waited for: that says nothing about it, in either direction."""
    limit = rollout.soaking_until_ms + settings.run_timeout_seconds * 1000
    waits = False
    for row in soaking:
        if node_of(draft, row.node_id).connection == "connected":
            continue
        if draft.now_ms < limit:
            waits = True
        else:
            end(draft, rollout, row, SKIPPED, "it took the version, went away, and did not come back in time")
    soaking[:] = [row for row in soaking if draft.get(RolloutNodeRow, (row.rollout_id, row.node_id)) == row]
    return waits


def _wave_over(draft: Draft, rollout: RolloutRow, settings: RolloutSettings) -> bool:
    """Every node of the wave has an end: the next one begins, waits for a person, or does not."""
    rows = [row for row in rows_of(draft, rollout, rollout.wave, rollout.wave) if not row.forgiven]
    ok = sum(row.state == SUCCEEDED for row in rows)
    missed = sum(is_failure(row) or bool(row.took_at_ms and row.state == SKIPPED) for row in rows)
    told.said(draft, rollout, "rollout.wave_finished", wave=rollout.wave, succeeded=ok, failed=missed)
    later = [row.wave for row in rows_of(draft, rollout, rollout.wave + 1, rollout.waves) if row.state == PENDING]
    if later and (rollout_plan.out_of_reach(ok, missed, 0, settings.success_percent) or not _proved(draft, rollout)):
        why = f"wave {rollout.wave}: {ok} of {ok + missed} nodes that could take the version stand"
        pause_itself(draft, rollout_of(draft, rollout.rollout_id), why, "" if rollout.failures else "upgrade_timed_out")
        return False
    if not later:
        return False
    if min(later) > rollout.approved_wave:
        waits = replace(rollout, state=AWAITING_APPROVAL, wave=min(later), soaking_until_ms=0, reason="")
        draft.update(waits)
        told.said(draft, waits, "rollout.changed", what="awaits approval", wave=waits.wave, automatic=True)
        return False
    begin_wave(draft, rollout, min(later))
    return True


def _proved(draft: Draft, rollout: RolloutRow) -> bool:
    """Nothing follows a canary that no node stood, though none failed either."""
    return any(row.state == SUCCEEDED or row.forgiven for row in rows_of(draft, rollout, 0, rollout.wave))


def begin_wave(draft: Draft, rollout: RolloutRow, wave: int) -> None:
    begun = replace(rollout, wave=wave, wave_started_ms=draft.now_ms, soaking_until_ms=0)
    draft.update(begun)
    rows = [row for row in rows_of(draft, rollout, wave, wave) if row.state == PENDING]
    boundary = rows[0].boundary if rows else ""
    told.said(draft, begun, "rollout.wave_started", wave=wave, boundary=boundary, **told.names_of(draft, rows))


def _finish(draft: Draft, rollout: RolloutRow) -> None:
    """Once every node has its end; a paused one waits for a person."""
    rows = rows_of(draft, rollout, 0, rollout.waves)
    if rollout.state in (PAUSED, AWAITING_APPROVAL) or any(row.state in OPEN for row in rows):
        return
    if rollout.turning_back and to_turn_back(draft, rollout):
        return
    stays = sum(row.state == FAILED and bool(row.rollback_run_id) for row in rows)
    failed, skipped = sum(map(is_failure, rows)), sum(row.state == SKIPPED for row in rows)
    state, reason = rollout.state, rollout.reason
    if state == ROLLING_BACK:
        state = FAILED if stays else ROLLED_BACK
    elif state == RUNNING:
        state = SUCCEEDED if any(row.state == SUCCEEDED for row in rows) else FAILED
        said = [f"{count} {word}" for count, word in ((failed, "failed"), (skipped, "skipped")) if count]
        reason = ", ".join(said)
    over = replace(rollout, state=state, reason=reason, turning_back=0, soaking_until_ms=0, finished_at_ms=draft.now_ms)
    draft.update(over)
    counts = {"succeeded": sum(row.state == SUCCEEDED for row in rows), "failed": failed, "skipped": skipped}
    told.said(draft, over, "rollout.finished", reason=reason, **counts)
