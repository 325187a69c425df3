"""Rows of checkpoints and of what witnesses say of them; only ever appended."""

from hostler.control.kernel.rows import Row


class CheckpointRow(Row, frozen=True):
    """A signed line over all chains. `digest` is that of its payload, `envelope` DSSE JSON."""

    KEY = ("checkpoint_index",)

    checkpoint_index: int
    digest: str
    nodes: int
    receipts: int
    at_ms: int
    envelope: bytes


class CheckpointHeadRow(Row, frozen=True):
    """How far a node's chain had come when this checkpoint found it longer than the one before."""

    KEY = ("node_id", "length")

    node_id: str
    length: int
    digest: str
    checkpoint_index: int


class CountersignatureRow(Row, frozen=True):
    KEY = ("checkpoint_index", "keyid")

    checkpoint_index: int
    keyid: str
    document: bytes
    at_ms: int
