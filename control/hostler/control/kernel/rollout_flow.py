"""What moves rollouts by themselves: runs that end, nodes that change, time that passes (LC-15, LC-16, LC-21).

Every decision ends here (`follow`), in the transaction of what caused it; all there is to know stands in the rows, so
that a control plane which was away goes on where it was (DM-07).

    pending ─▶ running ─▶ soaking ─▶ succeeded          soaking, succeeded, failed ─▶ rolling_back ─▶ rolled_back
       └─▶ skipped   └─▶ failed, rolled_back
"""

import msgspec

from hostler.control.kernel import rollout_ends, rollout_plan, rollout_watch
from hostler.control.kernel import rollout_events as told
from hostler.control.kernel.agent_commands import RolloutSettings
from hostler.control.kernel.agent_rows import NodeAgentRow, RolloutNodeRow, RolloutRow
from hostler.control.kernel.changes import of_rows
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rollout_rows import MAX_REASON, end, is_failure, rollout_of, rows_of
from hostler.control.kernel.rollout_runs import call_off, start, turn_back
from hostler.control.kernel.rollout_states import (
    ABORTED,
    AWAITING_APPROVAL,
    PAUSED,
    PENDING,
    RUNNING,
    SKIPPED,
    SOAKING,
    SUCCEEDED,
    UNPROVED,
    WATCHED,
)
from hostler.control.kernel.rows import NodeRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace


def follow(draft: Draft) -> bool:
    """Whether anything was looked at."""
    _notice(draft)
    looked = bool(draft.ended_runs or draft.rollouts)
    while draft.ended_runs or draft.rollouts:
        while draft.ended_runs:
            run_id = next(iter(draft.ended_runs))
            del draft.ended_runs[run_id]
            rollout_ends.of_run(draft, run_id)
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
    rollout_ends.finish(draft, rollout_of(draft, rollout.rollout_id))


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
    if rollout.error_code or rollout.state not in WATCHED or not rollout.failures:
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
    if any(row.state in UNPROVED for row in rows):
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
