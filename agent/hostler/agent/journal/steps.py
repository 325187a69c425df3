"""Intent before apply, outcome after, and what a step left behind to go on from (RT-05)."""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.agent.journal import allocations, chain, outbox, tasks
from hostler.agent.journal.rows import ChainHead, Receipt, ReusableStep, StepEnd, StepStart, TaskKey
from hostler.base.errors import HostlerError, error
from hostler.wire.report import StepReport

INTENT = "intent"

_BEGIN = (
    "INSERT INTO steps (task_id, attempt_number, step_index, step_id, kind, state, params_digest,"
    " plan_digest, started_ms) SELECT ?,?,?,?,?,'intent',?,?,?"
    " WHERE EXISTS (SELECT 1 FROM tasks WHERE task_id = ? AND attempt_number = ? AND state = 'open'"
    " AND envelope_digest = ?)"
    " ON CONFLICT DO UPDATE SET state = 'intent', params_digest = excluded.params_digest,"
    " plan_digest = excluded.plan_digest, started_ms = excluded.started_ms"
)
_END = (
    "INSERT INTO steps (task_id, attempt_number, step_index, step_id, kind, state, params_digest,"
    " plan_digest, outputs, error_code, chain_index, started_ms, finished_ms)"
    " VALUES (?,?,?,?,?,?,?,'',?,?,?,?,?)"
    " ON CONFLICT DO UPDATE SET state = excluded.state, outputs = excluded.outputs,"
    " params_digest = excluded.params_digest, error_code = excluded.error_code,"
    " chain_index = excluded.chain_index, finished_ms = excluded.finished_ms"
)
_OPEN = "SELECT 1 FROM tasks WHERE task_id = ? AND attempt_number = ? AND state = 'open'"


def begin(db: sqlite3.Connection, start: StepStart) -> None:
    """Raises `operation_final` when the task, by this very envelope, is not open: nothing may be applied."""
    report, key = start.report, start.task
    row = (
        *key, report.step_index, report.step_id, start.kind, start.params_digest, start.plan_digest,
        report.started_at_ms, *key, start.envelope_digest,
    )  # fmt: skip
    if db.execute(_BEGIN, row).rowcount != 1:
        raise _not_open(key)
    outbox.add(db, report)


def finish(db: sqlite3.Connection, end: StepEnd, sign: Callable[[ChainHead], bytes] | None) -> Receipt | None:
    """Stores and reports the step's end, with a new receipt unless it is reused or only planned.

    Raises `operation_final` when the task is not open.
    """
    if db.execute(_OPEN, end.task).fetchone() is None:
        raise _not_open(end.task)
    for line in end.logs:
        outbox.add(db, line)
    report, key = end.report, end.task
    receipt = None
    if sign is not None:
        receipt = chain.append(db, sign, key, report.step_index, report.finished_at_ms)
        report = _with(report, receipt)
    row = (
        *key, report.step_index, report.step_id, report.step_kind, report.status.value,
        end.params_digest, report.outputs_json, report.error_code, report.chain_index,
        report.started_at_ms, report.finished_at_ms,
    )  # fmt: skip
    db.execute(_END, row)
    allocations.remember(db, end, report, signed=receipt is not None)
    outbox.add(db, report)
    if end.final is not None:
        tasks.finish(db, key, end.final, end.trace)
    return receipt


def _not_open(key: TaskKey) -> HostlerError:
    return error("operation_final", f"task {key.task_id} attempt {key.attempt_number} is not open here")


def _with(report: StepReport, receipt: Receipt) -> StepReport:
    return msgspec.structs.replace(
        report, receipt=receipt.data, receipt_digest=receipt.digest, chain_index=receipt.index
    )


def reusable(db: sqlite3.Connection, task_id: str, step_id: str, receipt_digest: str) -> ReusableStep | None:
    """The successful step of an earlier attempt that ended in this receipt, if it is so (RT-03)."""
    row = db.execute(
        "SELECT s.step_id, s.kind, s.params_digest, s.outputs FROM steps s JOIN chain c USING (chain_index)"
        " WHERE s.task_id = ? AND s.step_id = ? AND s.state = 'succeeded' AND c.digest = ?",
        (task_id, step_id, receipt_digest),
    ).fetchone()
    return ReusableStep(*row) if row else None


def save_checkpoint(db: sqlite3.Connection, key: TaskKey, step_id: str, data: dict[str, Any]) -> None:
    """Keyed by task, not by attempt: a retry goes on from it."""
    row = (key.task_id, step_id, msgspec.json.encode(data))
    db.execute("INSERT OR REPLACE INTO checkpoints (task_id, step_id, data) VALUES (?,?,?)", row)


def checkpoint(db: sqlite3.Connection, key: TaskKey, step_id: str) -> dict[str, Any]:
    row = db.execute(
        "SELECT data FROM checkpoints WHERE task_id = ? AND step_id = ?", (key.task_id, step_id)
    ).fetchone()
    return msgspec.json.decode(row[0], type=dict[str, Any]) if row else {}
