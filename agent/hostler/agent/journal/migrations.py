"""The journal's shape: numbered steps, forward only. A released step is never edited, only followed.

A version of the agent may be returned from (LC-16), and the one before goes on with what it has left: `USABLE_FROM`.
"""

import sqlite3
from collections.abc import Callable

from hostler.agent.journal import meta
from hostler.base.errors import error

# Agents of this step and later ones can use the file that the newest step leaves: additions keep it as it is. A step
# that older agents must not see raises it to its own number, and from then on no node returns past it.
USABLE_FROM = 2


def _first(db: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        """CREATE TABLE tasks (
            task_id TEXT NOT NULL, attempt_number INTEGER NOT NULL, attempt_uid TEXT NOT NULL,
            operation_id TEXT NOT NULL, sequence INTEGER NOT NULL, state TEXT NOT NULL,
            envelope_digest TEXT NOT NULL, envelope BLOB, cancel_requested INTEGER NOT NULL DEFAULT 0,
            accepted_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL DEFAULT 0,
            result BLOB, result_digest TEXT NOT NULL DEFAULT '', trace TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (task_id, attempt_number))""",
        "CREATE INDEX tasks_open ON tasks (sequence) WHERE state = 'open'",
        """CREATE TABLE steps (
            task_id TEXT NOT NULL, attempt_number INTEGER NOT NULL, step_index INTEGER NOT NULL,
            step_id TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
            params_digest TEXT NOT NULL, plan_digest TEXT NOT NULL, outputs BLOB NOT NULL DEFAULT x'',
            error_code TEXT NOT NULL DEFAULT '', chain_index INTEGER NOT NULL DEFAULT 0,
            started_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (task_id, attempt_number, step_index)) WITHOUT ROWID""",
        """CREATE TABLE checkpoints (
            task_id TEXT NOT NULL, step_id TEXT NOT NULL, data BLOB NOT NULL,
            PRIMARY KEY (task_id, step_id)) WITHOUT ROWID""",
        "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)",
        """CREATE TABLE chain (
            chain_index INTEGER PRIMARY KEY, digest TEXT NOT NULL, receipt BLOB, at_ms INTEGER NOT NULL,
            task_id TEXT NOT NULL, attempt_number INTEGER NOT NULL, step_index INTEGER NOT NULL)""",
        """CREATE TABLE refusals (
            envelope_digest TEXT PRIMARY KEY, authentic INTEGER NOT NULL, at_ms INTEGER NOT NULL,
            report BLOB NOT NULL)""",
        "CREATE INDEX refusals_forged ON refusals (at_ms) WHERE authentic = 0",
        "CREATE TABLE documents (digest TEXT PRIMARY KEY, body BLOB NOT NULL)",
    ):
        db.execute(statement)


def _allocations(db: sqlite3.Connection) -> None:
    """What was done for an allocation outlives the detail of its tasks: a tenant may stay for months."""
    db.execute(
        """CREATE TABLE allocation_steps (
            number INTEGER PRIMARY KEY AUTOINCREMENT, allocation_id TEXT NOT NULL, operation_type TEXT NOT NULL,
            operation_id TEXT NOT NULL, task_id TEXT NOT NULL, attempt_number INTEGER NOT NULL,
            step_id TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, task_state TEXT NOT NULL,
            outputs BLOB NOT NULL, chain_index INTEGER NOT NULL, receipt_digest TEXT NOT NULL,
            finished_ms INTEGER NOT NULL)"""
    )
    db.execute("CREATE INDEX allocation_steps_of ON allocation_steps (allocation_id, number)")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first, _allocations)


def migrate(db: sqlite3.Connection) -> None:
    """Brings the file to the newest version, each step in its own transaction.

    Raises:
        HostlerError: `storage_unhealthy` when a newer agent wrote the file, and in a way that this one cannot use.
    """
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found > len(MIGRATIONS) and not 0 < meta.mark(db, meta.USABLE_FROM) <= len(MIGRATIONS):
        raise error(
            "storage_unhealthy",
            f"the journal has version {found}, this agent knows {len(MIGRATIONS)}",
            hint="install the agent that wrote it, or a newer one",
        )
    for number in range(found, len(MIGRATIONS)):
        db.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[number](db)
            db.execute(f"PRAGMA user_version = {number + 1}")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
    if meta.mark(db, meta.USABLE_FROM) < USABLE_FROM:
        meta.raise_mark(db, meta.USABLE_FROM, USABLE_FROM)
