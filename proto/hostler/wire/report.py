"""What a node tells: made by `agent.runner`, kept in its outbox, folded by `control.kernel`."""

from enum import StrEnum

import msgspec


class StepStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    REUSED = "reused"
    PLANNED = "planned"


class TaskStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    REFUSED = "refused"
    PLANNED = "planned"


class StepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running step is; not durable."""

    task_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    done_units: int
    total_units: int = 0
    unit: str = ""
    note: str = ""
    at_ms: int = 0


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line, or a part of one: `partial` says that no newline came after it. `phase` is of workloads only."""

    task_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    stream: str
    text: str
    at_ms: int
    partial: bool = False
    phase: str = ""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """What a step took in (`input`) or gave out (`output`), by digest (DM-06).

    Attributes:
        uri: where it came from or lies, without a query.
        content: of a small output that the definition declares; b"" where only the digest is told.
    """

    name: str
    kind: str
    sha256: str
    size_bytes: int
    media_type: str = ""
    uri: str = ""
    content: bytes = b""


MAX_ARTIFACTS = 16  # of one step
MAX_CONTENT = 262_144


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """A step's start (status running, no receipt) or its end (with its signed receipt)."""

    task_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    step_kind: str
    status: StepStatus
    error_code: str = ""
    error_message: str = ""
    error_hint: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    outputs_json: bytes = b""
    resolved_profile: str = ""
    hardware_match: str = ""
    recovered: bool = False
    receipt: bytes = b""
    receipt_digest: str = ""
    chain_index: int = 0
    plan_json: bytes = b""
    artifacts: tuple[Artifact, ...] = ()


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """A task's acceptance (running) or end. A refusal carries its own signed receipt."""

    task_id: str
    attempt_uid: str
    status: TaskStatus
    error_code: str = ""
    error_message: str = ""
    error_hint: str = ""
    failed_step_id: str = ""
    at_ms: int = 0
    envelope_digest: str = ""
    plan_digest: str = ""
    receipt: bytes = b""
    receipt_digest: str = ""
    chain_index: int = 0
    replayed: bool = False


Body = StepReport | TaskReport | LogLine


class Report(msgspec.Struct, frozen=True):
    """One outbox row; `outbox_seq` is per node and only rises."""

    outbox_seq: int
    body: Body
