"""What a decision has signed: a task, its end, a checkpoint. `dispatch` makes the envelopes."""

import msgspec

from hostler.control.kernel.rows import NodeRow


class TaskOrder(msgspec.Struct, frozen=True):
    """This task is to be signed, under this sequence; `dispatch` makes the envelope."""

    task_id: str
    node: NodeRow
    sequence: int
    nonce: bytes
    not_before_ms: int
    expires_at_ms: int


class CancelOrder(msgspec.Struct, frozen=True):
    """`attempt_uid` is "" for the task's present attempt."""

    task_id: str
    node: NodeRow
    sequence: int
    nonce: bytes
    not_before_ms: int
    expires_at_ms: int
    attempt_uid: str = ""


class CheckpointOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to be signed; the engine adds whose it is."""

    index: int
    previous: str
    root: str
    nodes: int
    receipts: int
    at_ms: int


Order = TaskOrder | CancelOrder | CheckpointOrder
