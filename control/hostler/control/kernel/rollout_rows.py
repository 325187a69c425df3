"""A rollout's rows as a decision has them, and how a node's part in it ends."""

from collections.abc import Iterable

import msgspec

from hostler.control.kernel import rollout_events as told
from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rollout_states import FAILED, PENDING, ROLLED_BACK, SKIPPED, WENT_WRONG

replace = msgspec.structs.replace
MAX_REASON = 500


def end(
    draft: Draft,
    rollout: RolloutRow,
    row: RolloutNodeRow,
    state: str,
    reason: str,
    error_code: str = "",
    check: str = "",
) -> None:
    """The node's end in this rollout, with its event; a failure is counted."""
    over = replace(
        row,
        state=state,
        waiting_for="",
        reason=reason[:MAX_REASON],
        error_code=error_code,
        failed_check=check,
        finished_at_ms=draft.now_ms,
    )
    draft.update(over)
    if is_failure(over) and not is_failure(row):
        now = rollout_of(draft, rollout.rollout_id)
        draft.update(replace(now, failures=now.failures + 1, failed_node_id=row.node_id))
    told.node_finished(draft, rollout_of(draft, rollout.rollout_id), over)


def leave_out(draft: Draft, node_id: str, pinned_version: str) -> None:
    """A node that is pinned to another version before its turn: what a person wished last counts."""
    for row in draft.current(draft.view.open_rollout_nodes_of(node_id)):
        rollout = rollout_of(draft, row.rollout_id)
        if row.state == PENDING and rollout.target_version != pinned_version:
            end(draft, rollout, row, SKIPPED, f"it was pinned to {pinned_version} before its turn")
            draft.rollouts[rollout.rollout_id] = None


def afresh(row: RolloutNodeRow) -> RolloutNodeRow:
    """As before its turn; how often it was tried is kept."""
    return replace(
        row,
        state=PENDING,
        waiting_for="",
        not_before_ms=0,
        run_id="",
        rollback_run_id="",
        started_at_ms=0,
        took_at_ms=0,
        failed_check="",
        forgiven=0,
        error_code="",
        reason="",
        finished_at_ms=0,
    )


def is_failure(row: RolloutNodeRow) -> bool:
    """Of the version, on that node: it failed there, or the node went back by itself."""
    return bool(row.error_code) and row.state in WENT_WRONG


def stays(row: RolloutNodeRow) -> bool:
    """It could not be brought back."""
    return row.state == FAILED and bool(row.rollback_run_id)


def begin_again(draft: Draft, rows: Iterable[RolloutNodeRow], wave: int, *, retry_failed: bool) -> None:
    """What was brought back goes again; what failed only if it is asked for, else it is left behind (LC-16)."""
    for row in rows:
        failed = is_failure(row)
        if (row.state == ROLLED_BACK and not failed) or (failed and retry_failed):
            draft.update(afresh(row))
        elif failed or (row.state == SKIPPED and row.wave <= wave):
            draft.update(replace(row, forgiven=1))


def rollout_of(draft: Draft, rollout_id: str) -> RolloutRow:
    rollout = draft.get(RolloutRow, rollout_id)
    assert rollout is not None
    return rollout


def rollout_row(draft: Draft, row: RolloutNodeRow) -> RolloutNodeRow:
    """As it is by now."""
    return draft.get(RolloutNodeRow, (row.rollout_id, row.node_id)) or row


def rows_of(draft: Draft, rollout: RolloutRow, first: int, last: int) -> list[RolloutNodeRow]:
    stored = draft.view.rollout_nodes(rollout.rollout_id, first, last)
    known = [*draft.current(stored)]
    if known:
        return known
    made = draft.rows_of(RolloutNodeRow, ())  # all of a rollout is made in one decision
    return [row for row in made if row.rollout_id == rollout.rollout_id and first <= row.wave <= last]
