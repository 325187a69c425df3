"""Measurements of nodes in a file of their own, beside the store and never in it (OB-09).

The file may be taken away at any moment, also while we serve: it is made anew, and nothing else notices. It is written
without waiting for the disk, in batches, by one thread; a crash may cost the last seconds of measurements.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hostler.control.store.db import store_error
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.records import NodeMeasured, Page
from hostler.wire.node import UNKNOWN

FIELDS = (
    "cpu_percent",
    "load_1m",
    "memory_used_bytes",
    "memory_total_bytes",
    "disk_used_bytes",
    "disk_total_bytes",
    "gpu_percent",
    "gpu_memory_used_bytes",
    "gpu_memory_total_bytes",
    "containers",
)
_COLUMNS = ("node_id", "at_ms", *FIELDS)
_MEASURES = ", ".join(f"{name} REAL NOT NULL" for name in FIELDS)
_SCHEMA = (
    (
        f"CREATE TABLE IF NOT EXISTS samples (node_id TEXT NOT NULL, at_ms INTEGER NOT NULL, {_MEASURES},"
        " PRIMARY KEY (node_id, at_ms)) WITHOUT ROWID, STRICT"
    ),
    "CREATE INDEX IF NOT EXISTS samples_by_age ON samples (at_ms)",
)
_INSERT = f"INSERT OR REPLACE INTO samples ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_PAGE = (
    f"SELECT {', '.join(_COLUMNS)} FROM samples WHERE node_id = ? AND at_ms > ? AND at_ms <= ?"  # noqa: S608
    " ORDER BY at_ms LIMIT ?"
)
_PRUNE = "DELETE FROM samples WHERE (node_id, at_ms) IN (SELECT node_id, at_ms FROM samples WHERE at_ms < ? LIMIT ?)"
_NTH = "SELECT at_ms FROM samples ORDER BY at_ms DESC LIMIT 1 OFFSET ?"
PRUNED_AT_ONCE = 20_000


class StoredSample(msgspec.Struct, frozen=True, kw_only=True):
    """One node at one moment, by our clock. -1 is not known."""

    node_id: str
    at_ms: int
    cpu_percent: float
    load_1m: float
    memory_used_bytes: float
    memory_total_bytes: float
    disk_used_bytes: float
    disk_total_bytes: float
    gpu_percent: float
    gpu_memory_used_bytes: float
    gpu_memory_total_bytes: float
    containers: float


def measured(sample: StoredSample) -> NodeMeasured:
    """As people see it."""
    known = {name: value for name in FIELDS if (value := getattr(sample, name)) != UNKNOWN}
    return NodeMeasured(at_ms=sample.at_ms, **known)


class SampleFile:
    """Methods block and raise `store_unavailable`; a lock lets a reader and the filer take turns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        self._turn = threading.Lock()

    def add(self, samples: Sequence[StoredSample]) -> None:
        with self._turn, self._open() as db:
            db.executemany(_INSERT, [msgspec.structs.astuple(sample) for sample in samples])

    def page(self, node_id: str, since_ms: int, until_ms: int, cursor: str, size: int) -> Page[NodeMeasured]:
        """Oldest first. Raises `invalid_cursor`."""
        after = int(said) if (said := decode_cursor(cursor)).isascii() and said.isdigit() and len(said) <= 18 else -1
        since = max(since_ms - 1, after)
        with self._turn, self._open() as db:
            rows = db.execute(_PAGE, (node_id, since, until_ms, page_limit(size) + 1)).fetchall()
        found = [measured(StoredSample(**dict(zip(_COLUMNS, row, strict=True)))) for row in rows]
        return page_of(found, size, lambda sample: str(sample.at_ms))

    def prune(self, before_ms: int, most_rows: int) -> int:
        """Drops what is older, and the oldest of what is too much, a bounded number at a time. → how many went."""
        with self._turn, self._open() as db:
            row = db.execute(_NTH, (most_rows,)).fetchone()
            limit = max(before_ms, row[0] + 1) if row else before_ms
            return db.execute(_PRUNE, (limit, PRUNED_AT_ONCE)).rowcount

    def close(self) -> None:
        with self._turn:
            self._drop()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction. A file that has gone or is broken is left behind, and a new one made."""
        try:
            db = self._connected()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
        except (sqlite3.Error, OSError) as err:
            self._drop()
            raise store_error(err) from err

    def _connected(self) -> sqlite3.Connection:
        if self._db is not None and _inode(self._path) != self._inode:
            self._drop()
        if self._db is None:
            self._db = self._make()
            self._inode = _inode(self._path)
        for statement in _SCHEMA:  # somebody may have dropped the table
            self._db.execute(statement)
        return self._db

    def _make(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA busy_timeout = 2000")
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.DatabaseError:
            db.close()
            self._set_aside()
            raise
        return db

    def _set_aside(self) -> None:
        """A damaged file: measurements are not worth a repair, and are kept for whoever wants to look."""
        with contextlib.suppress(OSError):
            self._path.replace(self._path.with_suffix(".damaged"))
        for ending in ("-wal", "-shm"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def _drop(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
