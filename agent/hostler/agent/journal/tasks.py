"""Accepted tasks, and those that have ended: remembered for ever (RT-06)."""

import sqlite3

import msgspec

from hostler.agent.journal import binding, meta, outbox
from hostler.agent.journal.rows import (
    OPEN,
    Acceptable,
    Cancelling,
    KnownTask,
    StoredStep,
    StoredTask,
    TaskKey,
)
from hostler.base.digest import sha256_hex
from hostler.base.errors import error
from hostler.wire.codec_report import decode_body, encode_body
from hostler.wire.report import TaskReport, TaskStatus

_KNOWN = (
    "SELECT task_id, attempt_number, attempt_uid, state, envelope_digest FROM tasks"
    " WHERE task_id = ? ORDER BY attempt_number DESC LIMIT 1"
)
_INSERT = (
    "INSERT INTO tasks (task_id, attempt_number, attempt_uid, operation_id, sequence, state,"
    " envelope_digest, envelope, accepted_ms) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING"
)
_REMEMBER = (
    "INSERT INTO tasks (task_id, attempt_number, attempt_uid, operation_id, sequence, state, envelope_digest,"
    " accepted_ms, finished_ms, result, result_digest) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING"
)
_FINISH = (
    "UPDATE tasks SET state = ?, finished_ms = ?, result = ?, result_digest = ?, trace = ?"
    " WHERE task_id = ? AND attempt_number = ? AND state = 'open'"
)
_STEPS = (
    "SELECT step_index, step_id, kind, state, params_digest, plan_digest, outputs, started_ms FROM steps"
    " WHERE task_id = ? AND attempt_number = ? ORDER BY step_index"
)


def known(db: sqlite3.Connection, task_id: str) -> KnownTask | None:
    row = db.execute(_KNOWN, (task_id,)).fetchone()
    return KnownTask(*row) if row else None


def accept(db: sqlite3.Connection, task: Acceptable, now_ms: int) -> None:
    """Raises `replayed` when the attempt is known already; its sequence counts either way."""
    spec = task.spec
    meta.raise_mark(db, meta.SEQUENCE, spec.sequence)
    row = (
        spec.task_id, spec.attempt_number, spec.attempt_uid, spec.operation_id, spec.sequence, OPEN,
        task.envelope_digest, task.envelope_bytes, now_ms,
    )  # fmt: skip
    if db.execute(_INSERT, row).rowcount != 1:
        raise error("replayed", f"task {spec.task_id} attempt {spec.attempt_number} was accepted before")
    present = binding.load(db)
    moved = binding.after_accept(present, spec)
    if moved != present:
        binding.store(db, moved)


def remember_end(
    db: sqlite3.Connection, key: TaskKey, operation_id: str, sequence: int, digest: str, report: TaskReport
) -> None:
    """A task that ends without having run here: refused, or cancelled before it came."""
    result = encode_body(report)
    row = (
        *key, report.attempt_uid, operation_id, sequence, report.status.value, digest,
        report.at_ms, report.at_ms, result, sha256_hex(result),
    )  # fmt: skip
    db.execute(_REMEMBER, row)


def finish(db: sqlite3.Connection, key: TaskKey, report: TaskReport, trace: str = "") -> bool:
    """Ends an open task and reports it; False, and no effect, when it has ended before."""
    result = encode_body(report)
    row = (report.status.value, report.at_ms, result, sha256_hex(result), trace, *key)
    if db.execute(_FINISH, row).rowcount != 1:
        return False
    if report.status == TaskStatus.SUCCEEDED:
        present = binding.load(db)
        moved = binding.after_success(present, key.task_id)
        if moved != present:
            binding.store(db, moved)
    if report.status in _DONE:
        db.execute("DELETE FROM checkpoints WHERE task_id = ?", (key.task_id,))
    outbox.add_encoded(db, result)
    return True


_DONE = (TaskStatus.SUCCEEDED, TaskStatus.PLANNED)  # others may be tried again, from their checkpoints


def replay(db: sqlite3.Connection, task_id: str) -> bool:
    """Reports the first result once more; False while the task is open or unknown."""
    row = db.execute(
        "SELECT attempt_uid, state, envelope_digest, finished_ms, result FROM tasks"
        " WHERE task_id = ? ORDER BY attempt_number DESC LIMIT 1",
        (task_id,),
    ).fetchone()
    if row is None or row[1] == OPEN:
        return False
    outbox.add(db, msgspec.structs.replace(_report(task_id, *row), replayed=True))
    return True


def _report(task_id: str, uid: str, state: str, digest: str, at_ms: int, result: bytes | None) -> TaskReport:
    stored = decode_body(result) if result is not None else None
    if isinstance(stored, TaskReport):
        return stored
    return TaskReport(task_id=task_id, attempt_uid=uid, status=TaskStatus(state), at_ms=at_ms, envelope_digest=digest)


def cancel(db: sqlite3.Connection, order: Cancelling, now_ms: int) -> bool:
    """True when the attempt is open and its runner has to be told; else everything is done here.

    A task that never came is remembered as cancelled, so that a late delivery does not start it.
    """
    spec = order.spec
    meta.raise_mark(db, meta.SEQUENCE, spec.sequence)
    changed = db.execute(
        "UPDATE tasks SET cancel_requested = 1 WHERE task_id = ? AND attempt_uid = ? AND state = 'open'",
        (spec.task_id, spec.attempt_uid),
    )
    if changed.rowcount == 1:
        return True
    row = db.execute("SELECT 1 FROM tasks WHERE attempt_uid = ? AND task_id = ?", (spec.attempt_uid, spec.task_id))
    if row.fetchone() is not None:
        replay(db, spec.task_id)
        return False
    report = TaskReport(
        task_id=spec.task_id,
        attempt_uid=spec.attempt_uid,
        status=TaskStatus.CANCELED,
        error_code="canceled",
        error_message=f"task {spec.task_id} was cancelled before it reached this node",
        at_ms=now_ms,
        envelope_digest=order.envelope_digest,
    )
    found = known(db, spec.task_id)
    key = TaskKey(spec.task_id, found.attempt_number + 1 if found else 1)
    remember_end(db, key, spec.operation_id, spec.sequence, order.envelope_digest, report)
    outbox.add(db, report)
    return False


def open_attempts(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT attempt_uid FROM tasks WHERE state = 'open'")}


def open_tasks(db: sqlite3.Connection) -> list[StoredTask]:
    rows = db.execute(
        "SELECT task_id, attempt_number, envelope, envelope_digest, sequence, cancel_requested FROM tasks"
        " WHERE state = 'open' ORDER BY sequence"
    ).fetchall()
    found = []
    for task_id, attempt, envelope, digest, sequence, cancelled in rows:
        key = TaskKey(task_id, attempt)
        steps = tuple(
            StoredStep(
                step_index=index,
                step_id=step_id,
                kind=kind,
                state=state,
                params_digest=params,
                plan_digest=plan,
                outputs_json=outputs,
                started_ms=started,
            )
            for index, step_id, kind, state, params, plan, outputs, started in db.execute(_STEPS, key)
        )
        found.append(
            StoredTask(
                key=key,
                envelope=envelope,
                envelope_digest=digest,
                sequence=sequence,
                cancel_requested=bool(cancelled),
                steps=steps,
            )
        )
    return found
