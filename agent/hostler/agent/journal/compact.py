"""Trims detail, never the memory of ids: an ended task shrinks to its id, state and result digest."""

import sqlite3

import msgspec

from hostler.agent.journal import meta

_DROP_STEPS = (
    "DELETE FROM steps WHERE EXISTS (SELECT 1 FROM tasks t WHERE t.task_id = steps.task_id"
    " AND t.attempt_number = steps.attempt_number AND t.state != 'open' AND t.finished_ms < ?)"
)
_SHRINK_TASKS = (
    "UPDATE tasks SET envelope = NULL, result = NULL, trace = '' WHERE state != 'open' AND finished_ms < ?"
    " AND (envelope IS NOT NULL OR result IS NOT NULL)"
)
_DROP_RECEIPTS = "UPDATE chain SET receipt = NULL WHERE at_ms < ? AND receipt IS NOT NULL"
_DROP_CHECKPOINTS = (
    "DELETE FROM checkpoints WHERE NOT EXISTS (SELECT 1 FROM tasks t"
    " WHERE t.task_id = checkpoints.task_id AND (t.state = 'open' OR t.finished_ms >= ?))"
)


def compact(db: sqlite3.Connection, before_ms: int) -> int:
    """Drops what lies behind tasks that ended before then; the number of tasks it shrank.

    The chain keeps every digest, so its head and its length stand; only old receipts go.
    """
    db.execute(_DROP_STEPS, (before_ms,))
    shrunk = db.execute(_SHRINK_TASKS, (before_ms,)).rowcount
    db.execute(_DROP_RECEIPTS, (before_ms,))
    db.execute(_DROP_CHECKPOINTS, (before_ms,))
    _drop_documents(db)
    return int(shrunk)


def _drop_documents(db: sqlite3.Connection) -> None:
    """Only when nothing runs: an open task may need a document of an older catalog."""
    listed = meta.get(db, meta.CATALOG_DOCUMENTS)
    busy = db.execute("SELECT 1 FROM tasks WHERE state = 'open' LIMIT 1").fetchone()
    if listed is None or busy:
        return
    keep = set(msgspec.json.decode(listed, type=list[str]))
    gone = [row for row in db.execute("SELECT digest FROM documents").fetchall() if row[0] not in keep]
    db.executemany("DELETE FROM documents WHERE digest = ?", gone)
