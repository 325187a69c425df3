"""The session's messages, beside tasks and reports."""

import msgspec

from hostler.base.envelope import Envelope
from hostler.wire.report import Report, StepProgress

UNKNOWN = -1  # of a measurement


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """First message of a session: what the agent is and where it stands."""

    agent_version: str
    boot_id: str = ""
    keyset_version: int = 0
    catalog_version: int = 0
    high_sequence: int = 0
    control_epoch: int = 0
    parallel_tasks: int = 1
    capabilities: dict[str, str] = {}
    labels: dict[str, str] = {}
    open_tasks: tuple[str, ...] = ()
    storage: str = "ok"
    hold: str = ""
    drift: str = ""
    instance_id: str = ""
    protocol: int = 0
    protocol_oldest: int = 0
    envelope_types: tuple[str, ...] = ()
    scheduling: str = ""
    agent_commit: str = ""
    agent_report: bytes = b""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a node is, by its own clock; `UNKNOWN` is not known."""

    at_ms: int = 0
    cpu_percent: float = UNKNOWN
    load_1m: float = UNKNOWN
    memory_used_bytes: int = UNKNOWN
    memory_total_bytes: int = UNKNOWN
    disk_used_bytes: int = UNKNOWN
    disk_total_bytes: int = UNKNOWN
    gpu_percent: float = UNKNOWN
    gpu_memory_used_bytes: int = UNKNOWN
    gpu_memory_total_bytes: int = UNKNOWN
    containers: int = UNKNOWN


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    running_tasks: int = 0
    free_slots: int = 0
    outbox_rows: int = 0
    storage: str = "ok"
    capabilities: dict[str, str] = {}
    hold: str = ""
    keyset_version: int = 0
    catalog_version: int = 0
    drift: str = ""
    sample: Sample | None = None
    agent_report: bytes = b""


class TaskAccepted(msgspec.Struct, frozen=True):
    """Journalled (fsync): these need not be sent again."""

    task_ids: tuple[str, ...]


class Reports(msgspec.Struct, frozen=True):
    reports: tuple[Report, ...]


class Progress(msgspec.Struct, frozen=True):
    steps: tuple[StepProgress, ...]


FromAgent = Hello | Heartbeat | TaskAccepted | Reports | Progress


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    server_time_ms: int
    control_epoch: int
    heartbeat_seconds: int
    sequence: int = 0
    renew_certificate: bool = False
    protocol: int = 0


class Tasks(msgspec.Struct, frozen=True):
    envelopes: tuple[Envelope, ...]


class ReportAck(msgspec.Struct, frozen=True):
    up_to: int


class CatalogUpdate(msgspec.Struct, frozen=True):
    manifest: bytes
    documents: tuple[bytes, ...]


class KeysetUpdate(msgspec.Struct, frozen=True):
    keyset: bytes


class WorkerPolicy(msgspec.Struct, frozen=True):
    """What operators want of the node (EF-07): `schedulable`, `cordoned` or `draining`; and of its agent (LC-02).

    Attributes:
        desired_agent_version: what the agent compares itself with; "" for nothing in particular.
        report_seconds: how often it looks at itself (LC-22); 0 for its own default.
    """

    scheduling: str
    desired_agent_version: str = ""
    report_seconds: int = 0


class Close(msgspec.Struct, frozen=True, kw_only=True):
    error_code: str
    message: str
    retry_after_ms: int = 0


FromControl = Welcome | Tasks | ReportAck | CatalogUpdate | KeysetUpdate | WorkerPolicy | Close
