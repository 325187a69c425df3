"""Ends: of a run, for the node's part in its rollout; of a rollout, once every node of it has one."""

import msgspec

from hostler.control.kernel import rollout_events as told
from hostler.control.kernel import rollout_watch
from hostler.control.kernel.agent_rows import AgentRunRow, RolloutNodeRow, RolloutRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rollout_rows import MAX_REASON, end, is_failure, rollout_of, rows_of, stays
from hostler.control.kernel.rollout_runs import to_turn_back
from hostler.control.kernel.rollout_states import (
    FAILED,
    OPEN,
    PENDING,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    SKIPPED,
    SOAKING,
    SUCCEEDED,
    WAITS_FOR_PEOPLE,
)
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace
AGAIN_MS = 60_000  # after the server's own trouble


def of_run(draft: Draft, run_id: str) -> None:
    """Files what the end of a run means for its node, where a rollout asked for it."""
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


def finish(draft: Draft, rollout: RolloutRow) -> None:
    """Once every node has its end; a paused one waits for a person."""
    rows = rows_of(draft, rollout, 0, rollout.waves)
    if rollout.state in WAITS_FOR_PEOPLE or any(row.state in OPEN for row in rows):
        return
    if rollout.turning_back and to_turn_back(draft, rollout):
        return
    failed, skipped = sum(map(is_failure, rows)), sum(row.state == SKIPPED for row in rows)
    state, reason = rollout.state, rollout.reason
    if state == ROLLING_BACK:
        state = FAILED if any(map(stays, rows)) else ROLLED_BACK
    elif state == RUNNING:
        state = SUCCEEDED if any(row.state == SUCCEEDED for row in rows) else FAILED
        said = [f"{count} {word}" for count, word in ((failed, "failed"), (skipped, "skipped")) if count]
        reason = ", ".join(said)
    over = replace(rollout, state=state, reason=reason, turning_back=0, soaking_until_ms=0, finished_at_ms=draft.now_ms)
    draft.update(over)
    counts = {"succeeded": sum(row.state == SUCCEEDED for row in rows), "failed": failed, "skipped": skipped}
    told.said(draft, over, "rollout.finished", reason=reason, **counts)
