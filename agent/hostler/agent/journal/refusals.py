"""One signed receipt for each refused envelope, however often it comes; a flood of forgeries is counted."""

import sqlite3
from collections.abc import Callable

import msgspec

from hostler.agent.journal import chain, meta, outbox, tasks
from hostler.agent.journal.rows import ChainHead, Refusable, TaskKey
from hostler.base.clock import Clock
from hostler.wire.codec_report import decode_body, encode_body
from hostler.wire.report import TaskReport, TaskStatus

MAX_FORGED = 10_000  # refusals of forged envelopes that are kept; receipts stay in the chain


class Flood:
    """A token bucket: forged envelopes past it leave only a number behind."""

    def __init__(self, clock: Clock, per_minute: int = 60) -> None:
        self._clock = clock
        self._rate = per_minute / 60
        self._size = float(per_minute)
        self._tokens = float(per_minute)
        self._at = clock.monotonic()
        self.counted = 0

    def passes(self) -> bool:
        now = self._clock.monotonic()
        self._tokens = min(self._size, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            self.counted += 1
            return False
        self._tokens -= 1
        return True


def refuse(db: sqlite3.Connection, refusal: Refusable, sign: Callable[[ChainHead], bytes]) -> None:
    """No effect but this: a receipt, a report, and for an envelope that was meant for us its marks."""
    if refusal.addressed:
        meta.raise_mark(db, meta.SEQUENCE, refusal.sequence)
    if _again(db, refusal):
        return
    key = TaskKey(refusal.task_id, refusal.attempt_number)
    receipt = chain.append(db, sign, key, chain.NO_STEP, refusal.at_ms)
    report = TaskReport(
        # A refused cancel must not be taken for a refusal of the task it names.
        task_id=refusal.task_id if refusal.is_task else "",
        attempt_uid=refusal.attempt_uid if refusal.is_task else "",
        status=TaskStatus.REFUSED,
        error_code=refusal.error_code,
        error_message=refusal.message,
        error_hint=refusal.hint,
        at_ms=refusal.at_ms,
        envelope_digest=refusal.envelope_digest,
        receipt=receipt.data,
        receipt_digest=receipt.digest,
        chain_index=receipt.index,
    )
    _remember(db, refusal, key, report)
    outbox.add(db, report)


def _again(db: sqlite3.Connection, refusal: Refusable) -> bool:
    row = db.execute("SELECT report FROM refusals WHERE envelope_digest = ?", (refusal.envelope_digest,)).fetchone()
    if row is None:
        return False
    stored = decode_body(row[0])
    if isinstance(stored, TaskReport):
        outbox.add(db, msgspec.structs.replace(stored, replayed=True))
    return True


def _remember(db: sqlite3.Connection, refusal: Refusable, key: TaskKey, report: TaskReport) -> None:
    db.execute(
        "INSERT INTO refusals (envelope_digest, authentic, at_ms, report) VALUES (?,?,?,?)",
        (refusal.envelope_digest, refusal.authentic, refusal.at_ms, encode_body(report)),
    )
    if not refusal.authentic:
        db.execute(
            "DELETE FROM refusals WHERE authentic = 0 AND at_ms <="
            " (SELECT at_ms FROM refusals WHERE authentic = 0 ORDER BY at_ms DESC LIMIT 1 OFFSET ?)",
            (MAX_FORGED,),
        )
    if refusal.addressed and refusal.is_task:
        tasks.remember_end(db, key, refusal.operation_id, refusal.sequence, refusal.envelope_digest, report)
