"""What waits to be acknowledged (RT-07): rows are sent from a cursor and trimmed by it."""

import sqlite3

from hostler.wire.codec_report import encode_body
from hostler.wire.report import Body


def add(db: sqlite3.Connection, body: Body) -> int:
    """The row's sequence number; numbers only rise, also over trims and restarts."""
    return add_encoded(db, encode_body(body))


def add_encoded(db: sqlite3.Connection, body: bytes) -> int:
    return db.execute("INSERT INTO outbox (body) VALUES (?)", (body,)).lastrowid or 0


def after(db: sqlite3.Connection, seq: int, limit: int) -> list[tuple[int, bytes]]:
    return db.execute("SELECT seq, body FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)).fetchall()


def weight(db: sqlite3.Connection) -> int:
    """Bytes that wait."""
    (total,) = db.execute("SELECT coalesce(sum(length(body)), 0) FROM outbox").fetchone()
    return int(total)


def trim(db: sqlite3.Connection, up_to: int) -> None:
    db.execute("DELETE FROM outbox WHERE seq <= ?", (up_to,))


def ends(db: sqlite3.Connection) -> tuple[int, int]:
    """(first, last) row there is; (0, 0) when empty."""
    low, high = db.execute("SELECT (SELECT min(seq) FROM outbox), (SELECT max(seq) FROM outbox)").fetchone()
    return low or 0, high or 0
