"""The file: opened with the pragmas that make a commit mean something, migrated forward, never deleted."""

import contextlib
import fcntl
import os
import sqlite3
from importlib.resources import files
from pathlib import Path

from hostler.base.errors import HostlerError, error
from hostler.control.kernel.agent_badges import badge

APPLICATION_ID = 0x48535443  # "HSTC"


def hold(path: Path) -> int:
    """Makes the store this process's own, until the descriptor is closed or the process ends.

    Two processes would each decide from what they remember of the rows.

    Raises:
        HostlerError: `store_unavailable` while another process has it.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise store_error(err) from err
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(descriptor)
        raise error(
            "store_unavailable",
            f"another control plane has {path} open",
            hint="while it runs, use its HTTP API: 'hostler principals', 'hostler nodes'",
        ) from err
    return descriptor


def open_writer(path: Path) -> sqlite3.Connection:
    """The one connection that writes, with the newest schema.

    Raises:
        HostlerError: `store_unavailable` for a file that is damaged, foreign or newer than this program.
    """
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        db = _connect(f"file:{path}?mode=rw")
    except (sqlite3.Error, OSError) as err:
        raise store_error(err) from err
    try:
        _check(db, path)
        migrate(db)
    except sqlite3.Error as err:
        db.close()
        raise store_error(err) from err
    except HostlerError:
        db.close()
        raise
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    db = _connect(f"file:{path}?mode=rw")
    db.execute("PRAGMA query_only = ON")
    db.create_function("agent_badge", 5, badge, deterministic=True)
    return db


def _connect(uri: str) -> sqlite3.Connection:
    """One thread at a time uses a connection; transactions are ours to begin and end."""
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=512)
    with contextlib.ExitStack() as undo:
        undo.callback(db.close)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA busy_timeout = 5000")
        db.execute("PRAGMA cache_size = -65536")
        db.execute("PRAGMA wal_autocheckpoint = 4000")
        undo.pop_all()
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    (found,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found not in (0, APPLICATION_ID) or (found == 0 and tables):
        raise error("store_unavailable", f"{path} is not a store of ours", hint="name another file")
    if found == 0:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def migrations() -> list[tuple[int, str]]:
    """(number, SQL) of every migration there is, in order."""
    folder = files("hostler.control.store").joinpath("schema")
    found = [(int(item.name[:4]), item.read_text()) for item in folder.iterdir() if item.name.endswith(".sql")]
    return sorted(found)


def migrate(db: sqlite3.Connection) -> None:
    """Applies what is missing, each migration in its own transaction (DM-25).

    Raises:
        HostlerError: `store_unavailable` when the file is from a newer program.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    known = migrations()
    if version > known[-1][0]:
        raise error(
            "store_unavailable",
            f"the store has schema {version}, this program knows {known[-1][0]}",
            hint="start the version of hostler-control that wrote it, or a newer one",
        )
    for number, sql in known:
        if number > version:
            db.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")


def store_error(err: Exception) -> HostlerError:
    reason = str(err).lower().rstrip(".")
    return error("store_unavailable", f"the store cannot be used: {reason}")
