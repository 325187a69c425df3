"""What was done on this node for each allocation; never compacted: a hand-over rests on it (AL-06)."""

import sqlite3

from hostler.agent.journal.rows import PastStep, StepEnd
from hostler.wire.report import StepReport

NO_RECEIPT = -1
_INSERT = (
    "INSERT INTO allocation_steps (allocation_id, operation_type, operation_id, task_id, attempt_number, step_id,"
    " kind, state, task_state, outputs, chain_index, receipt_digest, finished_ms)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_SELECT = (
    "SELECT number, operation_type, operation_id, task_id, attempt_number, step_id, kind, state, task_state, outputs,"
    " chain_index, receipt_digest, finished_ms FROM allocation_steps WHERE allocation_id = ? ORDER BY number"
)


def remember(db: sqlite3.Connection, end: StepEnd, report: StepReport, *, signed: bool) -> None:
    """`report` with its receipt, in the transaction that stores both."""
    whose = end.allocation
    if whose is None:
        return
    row = (
        whose.allocation_id, whose.operation_type, whose.operation_id, *end.task, report.step_id, report.step_kind,
        report.status.value, end.final.status.value if end.final else "", report.outputs_json,
        report.chain_index if signed else NO_RECEIPT, report.receipt_digest, report.finished_at_ms,
    )  # fmt: skip
    db.execute(_INSERT, row)


def past(db: sqlite3.Connection, allocation_id: str) -> tuple[PastStep, ...]:
    """In the order in which they ended."""
    if not allocation_id:
        return ()
    names = PastStep.__struct_fields__
    return tuple(PastStep(**dict(zip(names, row, strict=True))) for row in db.execute(_SELECT, (allocation_id,)))
