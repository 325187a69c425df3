"""The journal's file: made whole or not at all, checked at every start, never deleted (K4)."""

import contextlib
import os
import sqlite3
from pathlib import Path

from hostler.agent.journal.migrations import migrate
from hostler.base.errors import HostlerError, error
from hostler.pki.storage import sync_directory

APPLICATION_ID = 0x48535452  # "HSTR"
_KEPT = "the file was kept: move it away by hand once you know why, and enrol the node again"


def storage_error(err: sqlite3.Error | OSError, path: Path) -> HostlerError:
    """`disk_full` or `storage_unhealthy`, in words."""
    full = getattr(err, "sqlite_errorname", "") == "SQLITE_FULL"
    reason = str(err).lower().rstrip(".")
    return error("disk_full" if full else "storage_unhealthy", f"the journal {path} cannot be written: {reason}")


def open_pair(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """The writer's connection and a read-only one.

    Raises:
        HostlerError: `storage_unhealthy` for a file that is truncated, empty, foreign, newer than this
            agent, or cannot be opened.
    """
    try:
        if not path.exists():
            _create(path)
        if path.stat().st_size == 0:
            raise error("storage_unhealthy", f"the journal {path} is empty", hint=_KEPT)
        writer = _connect(path)
    except (sqlite3.Error, OSError) as err:
        raise _unreadable(path, err) from err
    try:
        _check(writer, path)
        migrate(writer)
        reader = _connect(path)
        reader.execute("PRAGMA query_only = ON")
    except sqlite3.Error as err:
        writer.close()
        raise _unreadable(path, err) from err
    except HostlerError:
        writer.close()
        raise
    return writer, reader


def _create(path: Path) -> None:
    """Built beside its place and moved there: an empty file at `path` is always damage."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(db)
    fresh.replace(path)
    sync_directory(path.parent)


def _connect(path: Path) -> sqlite3.Connection:
    """One thread at a time uses a connection: the writer's, or the loop's."""
    db = sqlite3.connect(
        f"file:{path}?mode=rw", uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA busy_timeout = 5000")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise error("storage_unhealthy", f"the file {path} is no journal of ours", hint=_KEPT)
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise error("storage_unhealthy", f"the journal {path} is damaged: {verdict.splitlines()[0]}", hint=_KEPT)


def _unreadable(path: Path, err: Exception) -> HostlerError:
    reason = str(err).lower().rstrip(".")
    return error("storage_unhealthy", f"the journal {path} cannot be opened: {reason}", hint=_KEPT)
