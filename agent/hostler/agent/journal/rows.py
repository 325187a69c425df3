"""What goes into the journal and comes out of it, as plain values."""

from typing import NamedTuple, Protocol

import msgspec

from hostler.wire.report import LogLine, StepReport, TaskReport
from hostler.wire.task import CancelSpec, TaskSpec

OPEN = "open"
GENESIS = ""  # what the first receipt of a node names as its predecessor


class TaskKey(NamedTuple):
    """RT-06: what was executed is known by task and attempt."""

    task_id: str
    attempt_number: int


class KnownTask(msgspec.Struct, frozen=True):
    """The newest attempt of a task that this node ever took or refused.

    Attributes:
        state: `open`, or the final `TaskStatus`.
    """

    task_id: str
    attempt_number: int
    attempt_uid: str
    state: str
    envelope_digest: str

    @property
    def open(self) -> bool:
        return self.state == OPEN


class StoredStep(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    state: `intent` while its end is unknown, else the final `StepStatus`.
    """

    step_index: int
    step_id: str
    kind: str
    state: str
    params_digest: str
    plan_digest: str
    outputs_json: bytes
    started_ms: int


class StoredTask(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted task that has not ended, as a restart finds it."""

    key: TaskKey
    envelope: bytes
    envelope_digest: str
    sequence: int
    cancel_requested: bool
    steps: tuple[StoredStep, ...]


class ReusableStep(msgspec.Struct, frozen=True):
    """A step that once succeeded here, found by the digest of its receipt."""

    step_id: str
    kind: str
    params_digest: str
    outputs_json: bytes


class StepStart(msgspec.Struct, frozen=True, kw_only=True):
    """The intent: durable before `apply` may touch anything."""

    task: TaskKey
    envelope_digest: str
    kind: str
    params_digest: str
    plan_digest: str
    report: StepReport


class ForAllocation(msgspec.Struct, frozen=True):
    """Whom a step was for; `operation_type` is `type@version`."""

    allocation_id: str
    operation_type: str
    operation_id: str


class PastStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that ended here for an allocation.

    Attributes:
        number: order in which they ended.
        task_state: how the task ended, if it ended with this step; else "".
        chain_index: of its receipt; -1 where it stands on an earlier one.
    """

    number: int
    operation_type: str
    operation_id: str
    task_id: str
    attempt_number: int
    step_id: str
    kind: str
    state: str
    task_state: str
    outputs_json: bytes
    chain_index: int
    receipt_digest: str
    finished_ms: int

    @property
    def type(self) -> str:
        """Of the operation, without its version."""
        return self.operation_type.partition("@")[0]


class StepEnd(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction: outcome, receipt, report, the last log lines, and the task's end if this was it.

    Attributes:
        report: without its receipt, which is made inside the transaction.
        trace: of an unexpected exception; stays on the node.
        allocation: remembered for as long as the journal lives.
    """

    task: TaskKey
    params_digest: str
    report: StepReport
    logs: tuple[LogLine, ...] = ()
    final: TaskReport | None = None
    trace: str = ""
    allocation: ForAllocation | None = None


class ChainHead(msgspec.Struct, frozen=True):
    """Where the next receipt goes."""

    index: int
    previous: str


class Receipt(msgspec.Struct, frozen=True):
    """A signed statement in its place in the chain."""

    data: bytes  # DSSE JSON
    digest: str
    index: int


class Acceptable(Protocol):
    """What admission let pass."""

    @property
    def spec(self) -> TaskSpec: ...
    @property
    def envelope_bytes(self) -> bytes: ...
    @property
    def envelope_digest(self) -> str: ...


class Cancelling(Protocol):
    """A cancel that admission let pass."""

    @property
    def spec(self) -> CancelSpec: ...
    @property
    def envelope_digest(self) -> str: ...


class Refusable(Protocol):
    """What admission turned away.

    `authentic` says that the signature was good; `addressed`, that it was also meant for this node's
    present key. Only an addressed envelope may raise the sequence or take a task id.
    """

    @property
    def error_code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str: ...
    @property
    def gate(self) -> str: ...
    @property
    def envelope_digest(self) -> str: ...
    @property
    def authentic(self) -> bool: ...
    @property
    def addressed(self) -> bool: ...
    @property
    def is_task(self) -> bool: ...
    @property
    def task_id(self) -> str: ...
    @property
    def operation_id(self) -> str: ...
    @property
    def attempt_uid(self) -> str: ...
    @property
    def attempt_number(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def at_ms(self) -> int: ...
