"""The node's receipt chain: each receipt names its index and the digest of the one before.

The head is read and advanced in the transaction that stores the receipt, so the chain has no gap.
"""

import sqlite3
from collections.abc import Callable

from hostler.agent.journal.rows import GENESIS, ChainHead, Receipt, TaskKey
from hostler.base.digest import sha256_hex

NO_STEP = -1  # of a refusal


def head(db: sqlite3.Connection) -> ChainHead:
    """Where the next receipt goes; the first has index 0."""
    row = db.execute("SELECT chain_index, digest FROM chain ORDER BY chain_index DESC LIMIT 1").fetchone()
    return ChainHead(row[0] + 1, row[1]) if row else ChainHead(0, GENESIS)


def append(
    db: sqlite3.Connection, sign: Callable[[ChainHead], bytes], task: TaskKey, step_index: int, at_ms: int
) -> Receipt:
    place = head(db)
    data = sign(place)
    receipt = Receipt(data, sha256_hex(data), place.index)
    db.execute(
        "INSERT INTO chain (chain_index, digest, receipt, at_ms, task_id, attempt_number, step_index)"
        " VALUES (?,?,?,?,?,?,?)",
        (receipt.index, receipt.digest, data, at_ms, *task, step_index),
    )
    return receipt


def receipts(db: sqlite3.Connection, start: int, limit: int) -> list[bytes]:
    rows = db.execute("SELECT receipt FROM chain WHERE chain_index >= ? ORDER BY chain_index LIMIT ?", (start, limit))
    return [row[0] for row in rows if row[0] is not None]
