"""Single values: marks that only rise, and the catalog in force."""

import sqlite3

SEQUENCE = "high_sequence"
EPOCH = "control_epoch"
HELD = "held_epoch"
CHECKED = "checked_ms"
SCHEDULING = "scheduling"
CATALOG = "catalog_manifest"
CATALOG_DOCUMENTS = "catalog_documents"
RESOLVER = "resolver"
USABLE_FROM = "usable_from"  # see `migrations`

_RAISE = (
    "INSERT INTO meta (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE excluded.value > value"
)


def mark(db: sqlite3.Connection, key: str) -> int:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def raise_mark(db: sqlite3.Connection, key: str, value: int) -> None:
    """Never lowers it."""
    db.execute(_RAISE, (key, value))


def begin_epoch(db: sqlite3.Connection, epoch: int) -> None:
    """The root has opened a new epoch: its sequences start from nothing."""
    db.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", ((EPOCH, epoch), (SEQUENCE, 0)))


def put(db: sqlite3.Connection, key: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


def get(db: sqlite3.Connection, key: str) -> bytes | None:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return bytes(row[0]) if row else None
