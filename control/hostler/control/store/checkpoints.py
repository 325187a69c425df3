"""Read-only queries about checkpoints: plain functions over a connection, called in a reader thread."""

import sqlite3

from hostler.base.errors import error
from hostler.control.store.pages import decode_cursor, encode_cursor, page_limit
from hostler.control.store.records import ChainReach, CheckpointTimes, StoredCheckpoint

_ONE = "SELECT checkpoint_index, digest, at_ms, envelope FROM checkpoints WHERE checkpoint_index = ?"
MAX_RECEIPTS = 10_000


def newest(db: sqlite3.Connection) -> StoredCheckpoint | None:
    return _at(db, "SELECT max(checkpoint_index) FROM checkpoints")


def newest_witnessed(db: sqlite3.Connection) -> StoredCheckpoint | None:
    """The newest that any witness has countersigned."""
    return _at(db, "SELECT max(checkpoint_index) FROM countersignatures")


def times(db: sqlite3.Connection) -> CheckpointTimes:
    made, witnessed = newest(db), newest_witnessed(db)
    after = (made.index if made else -1) - (witnessed.index if witnessed else -1)
    return CheckpointTimes(made.at_ms if made else None, witnessed.at_ms if witnessed else None, after)


def page(db: sqlite3.Connection, cursor: str, page_size: int) -> tuple[list[StoredCheckpoint], str]:
    """Oldest first, and the cursor of the next page."""
    after = _position(cursor)
    sql = "SELECT checkpoint_index FROM checkpoints WHERE checkpoint_index > ? ORDER BY checkpoint_index LIMIT ?"
    indexes = [row[0] for row in db.execute(sql, (after, page_limit(page_size) + 1))]
    shown = indexes[:page_size]
    found = [checkpoint for index in shown if (checkpoint := _one(db, index))]
    return found, cursor_after(shown[-1]) if len(indexes) > page_size else ""


def cursor_after(index: int) -> str:
    return encode_cursor(f"checkpoint:{index}")


def heads_as_of(db: sqlite3.Connection, index: int) -> list[ChainReach]:
    """Every head that checkpoint `index` is over, by node id."""
    sql = """SELECT n.node_id, h.length, h.digest FROM node_cursors n
             JOIN checkpoint_heads h ON h.node_id = n.node_id AND h.length = (
               SELECT length FROM checkpoint_heads
               WHERE node_id = n.node_id AND checkpoint_index <= ? ORDER BY length DESC LIMIT 1)
             ORDER BY n.node_id"""
    return [ChainReach(*row) for row in db.execute(sql, (index,))]


def heads_moved(db: sqlite3.Connection, index: int) -> list[ChainReach]:
    """The heads that checkpoint `index` found longer than the one before it."""
    sql = "SELECT node_id, length, digest FROM checkpoint_heads WHERE checkpoint_index = ? ORDER BY node_id"
    return [ChainReach(*row) for row in db.execute(sql, (index,))]


def receipts_of_move(db: sqlite3.Connection, head: ChainReach) -> tuple[bytes, ...]:
    """The receipts by which a head moved from where the checkpoint before it had it."""
    sql = """SELECT receipt FROM receipts WHERE node_id = :node AND chain_index < :length AND chain_index >= coalesce(
               (SELECT max(length) FROM checkpoint_heads WHERE node_id = :node AND length < :length), 0)
             ORDER BY chain_index, at_ms"""
    return tuple(row[0] for row in db.execute(sql, {"node": head.node_id, "length": head.length}))


def reached(db: sqlite3.Connection) -> dict[str, int]:
    """Node id → index of its last receipt, for nodes that have sent one."""
    return dict(db.execute("SELECT node_id, chain_index FROM node_cursors WHERE chain_index >= 0"))


def receipts_from(db: sqlite3.Connection, node_id: str, index: int) -> list[bytes]:
    """A node's receipts from `index` on, in order; at most `MAX_RECEIPTS`."""
    sql = "SELECT receipt FROM receipts WHERE node_id = ? AND chain_index >= ? ORDER BY chain_index, at_ms LIMIT ?"
    return [row[0] for row in db.execute(sql, (node_id, index, MAX_RECEIPTS))]


def _at(db: sqlite3.Connection, sql: str) -> StoredCheckpoint | None:
    (index,) = db.execute(sql).fetchone()
    return None if index is None else _one(db, index)


def _one(db: sqlite3.Connection, index: int) -> StoredCheckpoint | None:
    row = db.execute(_ONE, (index,)).fetchone()
    if row is None:
        return None
    sql = "SELECT document FROM countersignatures WHERE checkpoint_index = ? ORDER BY keyid"
    words = tuple(word[0] for word in db.execute(sql, (index,)))
    return StoredCheckpoint(index=row[0], digest=row[1], at_ms=row[2], envelope=row[3], countersignatures=words)


def _position(cursor: str) -> int:
    """Raises `invalid_cursor`."""
    if not cursor:
        return -1
    kind, _, position = decode_cursor(cursor).partition(":")
    if kind != "checkpoint" or not (position.isascii() and position.isdigit()) or len(position) > 18:
        raise error("invalid_cursor", "the cursor is of another list")
    return int(position)
