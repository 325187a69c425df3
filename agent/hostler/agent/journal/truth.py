"""What this node knows of one attempt: the answer to a status probe (SK-23). Reads only."""

import sqlite3

import msgspec

from hostler.agent.journal.rows import OPEN
from hostler.wire.codec_node import decode_envelope
from hostler.wire.codec_task import decode_task

_TASK = (
    "SELECT attempt_number, state, accepted_ms, finished_ms, envelope FROM tasks"
    " WHERE task_id = ? AND attempt_uid = ? ORDER BY attempt_number DESC LIMIT 1"
)
_LAST_STEP = (
    "SELECT s.step_id, s.state, s.error_code, s.outputs, coalesce(c.digest, '') FROM steps s"
    " LEFT JOIN chain c ON c.chain_index = s.chain_index AND c.task_id = s.task_id"
    " AND c.attempt_number = s.attempt_number AND c.step_index = s.step_index"
    " WHERE s.task_id = ? AND s.attempt_number = ? ORDER BY s.step_index DESC LIMIT 1"
)
ASKERS = ("admin", "system")  # who may ask about anybody's tasks
UNKNOWN, WAITING, RUNNING = "unknown", "waiting", "running"


class TaskTruth(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    state: unknown (never taken here), waiting (taken, nothing begun), running, or how it ended.
    step_id, receipt_digest, exit_status: of its last step, while the journal has the detail; -1 is no exit.
    """

    state: str = UNKNOWN
    attempt_number: int = 0
    step_id: str = ""
    exit_status: int = -1
    error_code: str = ""
    receipt_digest: str = ""
    accepted_at_ms: int = 0
    finished_at_ms: int = 0

    @property
    def ended(self) -> bool:
        return self.state not in (UNKNOWN, WAITING, RUNNING)


class Asker(msgspec.Struct, frozen=True):
    """Whose probe it is. A tenant learns of its own tasks alone."""

    trigger_source: str
    org_id: str
    project_id: str

    @property
    def sees_all(self) -> bool:
        return self.trigger_source in ASKERS


def truth_of(db: sqlite3.Connection, task_id: str, attempt_uid: str, asker: Asker) -> TaskTruth:
    row = db.execute(_TASK, (task_id, attempt_uid)).fetchone()
    if row is None or not (asker.sees_all or _is_of(row[-1], asker)):
        return TaskTruth()
    attempt, state, accepted_ms, finished_ms, _ = row
    step = db.execute(_LAST_STEP, (task_id, attempt)).fetchone()
    if state == OPEN:
        state = RUNNING if step else WAITING
    step_id, _, code, outputs, receipt = step or ("", "", "", b"", "")
    return TaskTruth(
        state=state,
        attempt_number=attempt,
        step_id=step_id,
        exit_status=_exit_of(outputs),
        error_code=code,
        receipt_digest=receipt,
        accepted_at_ms=accepted_ms,
        finished_at_ms=finished_ms,
    )


def _is_of(envelope: bytes | None, asker: Asker) -> bool:
    """By the signed task itself; False once the journal has let go of it."""
    if envelope is None:
        return False
    task = decode_task(decode_envelope(envelope).payload)
    return (task.org_id, task.project_id) == (asker.org_id, asker.project_id)


def _exit_of(outputs: bytes) -> int:
    """What a step that ran a program said of its end; -1 where there was none."""
    said = msgspec.json.decode(outputs) if outputs else {}
    found = said.get("exit_status", said.get("exit_code")) if isinstance(said, dict) else None
    return found if isinstance(found, int) else -1
