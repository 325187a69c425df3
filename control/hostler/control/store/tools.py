"""What an operator asks of the store itself: what is in it, whether it is whole, and a copy of it.

All of them may run beside the control plane: they read, in transactions of their own.
"""

import os
import sqlite3
import tempfile
from pathlib import Path

import msgspec
from sqlite_utils import Database

from hostler.base.errors import error
from hostler.control.store import db as store_db
from hostler.pki.storage import sync_directory

MOST_FAULTS = 20


class TableStats(msgspec.Struct, frozen=True, kw_only=True):
    """`bytes` counts the table's pages and its indexes'; -1 where SQLite was built without `dbstat`."""

    table: str
    rows: int
    bytes: int
    indexes: tuple[str, ...]


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """`schema` is the newest migration that it has; `bytes` the file's, without its write-ahead log."""

    path: str
    schema: int
    bytes: int
    wal_bytes: int
    free_bytes: int
    tables: tuple[TableStats, ...]


def stats(path: Path) -> StoreStats:
    """Raises `store_unavailable` for a file that is not there or not a store of ours."""
    db = _open(path)
    try:
        sizes = _sizes(db)
        (page,), (free,) = db.execute("PRAGMA page_size").fetchone(), db.execute("PRAGMA freelist_count").fetchone()
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        wal = path.with_name(f"{path.name}-wal")
        return StoreStats(
            path=str(path),
            schema=schema,
            bytes=path.stat().st_size,
            wal_bytes=wal.stat().st_size if wal.exists() else 0,
            free_bytes=page * free,
            tables=tuple(_table(db, table.name, sizes) for table in db.tables if not table.name.startswith("sqlite_")),
        )
    except sqlite3.Error as err:
        raise store_db.store_error(err) from err
    finally:
        db.close()


def check(path: Path) -> list[str]:
    """→ what is wrong with it, nothing where it is whole: pages, indexes, and rows that point at none.

    Raises:
        HostlerError: `store_unavailable` when it cannot be read at all.
    """
    db = _open(path)
    try:
        found = [str(line) for (line,) in db.execute(f"PRAGMA integrity_check({MOST_FAULTS})")]
        faults = [line for line in found if line != "ok"]
        for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchmany(MOST_FAULTS):
            faults.append(f"row {row} of {table} points at no row of {parent}")
        return faults
    except sqlite3.DatabaseError as err:
        return [str(err)]
    finally:
        db.close()


def backup(path: Path, target: Path) -> int:
    """→ bytes of the copy: one moment of the store, complete by itself, checked before it gets its name.

    Raises:
        HostlerError: `store_unavailable`, also where `target` exists or its copy turns out damaged.
    """
    if target.exists():
        raise error("store_unavailable", f"{target} exists", hint="name a file that does not; nothing was written")
    db = _open(path)
    try:
        # a directory that is ours alone: nobody plants a journal or a link beside the copy in the making
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
            making = Path(place) / target.name
            os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _copy(db, making)
            faults = check(making)
            if faults:
                raise error("store_unavailable", f"the copy of {path} is damaged: {faults[0]}", hint="check the store")
            with making.open("rb") as copy:
                os.fsync(copy.fileno())
            os.link(making, target)  # which never takes the place of another file
        sync_directory(target.parent)
        return target.stat().st_size
    except (sqlite3.Error, OSError) as err:
        raise store_db.store_error(err) from err
    finally:
        db.close()


def _copy(db: Database, target: Path) -> None:
    """In one step, under one read lock: no write falls between its pages. One file, without a log beside it."""
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        db.conn.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()


def _open(path: Path) -> Database:
    """Read-only; it needs the right to read and, for SQLite's shared memory beside the file, to write."""
    if not path.is_file():
        raise error("store_unavailable", f"there is no store at {path}", hint="'hostler-control init' makes one")
    try:
        found = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        found.execute("PRAGMA busy_timeout = 5000")
        (application,) = found.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error as err:
        raise store_db.store_error(err) from err
    if application != store_db.APPLICATION_ID:
        found.close()
        raise error("store_unavailable", f"{path} is not a store of ours", hint="name another file")
    return Database(found)


def _sizes(db: Database) -> dict[str, int]:
    """Bytes of each table and index, where SQLite can tell."""
    try:
        rows = db.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
    except sqlite3.OperationalError:
        return {}
    return {str(name): int(size) for name, size in rows}


def _table(db: Database, name: str, sizes: dict[str, int]) -> TableStats:
    table = db.table(name)
    indexes = tuple(index.name for index in table.indexes)
    size = sum(sizes.get(each, 0) for each in (name, *indexes)) if sizes else -1
    return TableStats(table=name, rows=table.count, bytes=size, indexes=indexes)
