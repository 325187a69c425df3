from hostler.v1 import envelope_pb2 as _envelope_pb2
from hostler.v1 import report_pb2 as _report_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnrollRequest(_message.Message):
    __slots__ = ("token", "csr_der", "agent_version", "labels", "keyset_version", "runner_key")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CSR_DER_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KEYSET_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNNER_KEY_FIELD_NUMBER: _ClassVar[int]
    token: str
    csr_der: bytes
    agent_version: str
    labels: _containers.ScalarMap[str, str]
    keyset_version: int
    runner_key: bytes
    def __init__(self, token: _Optional[str] = ..., csr_der: _Optional[bytes] = ..., agent_version: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., keyset_version: _Optional[int] = ..., runner_key: _Optional[bytes] = ...) -> None: ...

class EnrollResponse(_message.Message):
    __slots__ = ("node_id", "org_id", "project_id", "certificate_pem", "keyset", "control_epoch", "keysets", "catalog")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ORG_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_ID_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    KEYSET_FIELD_NUMBER: _ClassVar[int]
    CONTROL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    KEYSETS_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    org_id: str
    project_id: str
    certificate_pem: bytes
    keyset: bytes
    control_epoch: int
    keysets: _containers.RepeatedScalarFieldContainer[bytes]
    catalog: CatalogUpdate
    def __init__(self, node_id: _Optional[str] = ..., org_id: _Optional[str] = ..., project_id: _Optional[str] = ..., certificate_pem: _Optional[bytes] = ..., keyset: _Optional[bytes] = ..., control_epoch: _Optional[int] = ..., keysets: _Optional[_Iterable[bytes]] = ..., catalog: _Optional[_Union[CatalogUpdate, _Mapping]] = ...) -> None: ...

class RecoverRequest(_message.Message):
    __slots__ = ("node_id", "csr_der", "keyset_version")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CSR_DER_FIELD_NUMBER: _ClassVar[int]
    KEYSET_VERSION_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    csr_der: bytes
    keyset_version: int
    def __init__(self, node_id: _Optional[str] = ..., csr_der: _Optional[bytes] = ..., keyset_version: _Optional[int] = ...) -> None: ...

class RecoverResponse(_message.Message):
    __slots__ = ("certificate_pem", "keysets")
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    KEYSETS_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    keysets: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, certificate_pem: _Optional[bytes] = ..., keysets: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckResponse(_message.Message):
    __slots__ = ("server_time_ms",)
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    server_time_ms: int
    def __init__(self, server_time_ms: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("csr_der",)
    CSR_DER_FIELD_NUMBER: _ClassVar[int]
    csr_der: bytes
    def __init__(self, csr_der: _Optional[bytes] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("certificate_pem",)
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    def __init__(self, certificate_pem: _Optional[bytes] = ...) -> None: ...

class MintRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: bytes
    def __init__(self, request: _Optional[bytes] = ...) -> None: ...

class MintResponse(_message.Message):
    __slots__ = ("minted",)
    MINTED_FIELD_NUMBER: _ClassVar[int]
    minted: bytes
    def __init__(self, minted: _Optional[bytes] = ...) -> None: ...

class FetchBundleRequest(_message.Message):
    __slots__ = ("task_id", "attempt_uid", "sha256", "offset")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_uid: str
    sha256: str
    offset: int
    def __init__(self, task_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ..., sha256: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class BundleChunk(_message.Message):
    __slots__ = ("offset", "total", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    total: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., total: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class TaskCallRequest(_message.Message):
    __slots__ = ("task_id", "attempt_uid", "method", "body")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_uid: str
    method: str
    body: bytes
    def __init__(self, task_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ..., method: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class TaskCallResponse(_message.Message):
    __slots__ = ("status", "body")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    status: int
    body: bytes
    def __init__(self, status: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("agent_version", "boot_id", "keyset_version", "catalog_version", "high_sequence", "control_epoch", "parallel_tasks", "capabilities", "labels", "open_tasks", "storage", "hold", "drift", "instance_id", "protocol", "protocol_oldest", "envelope_types", "scheduling", "agent_commit", "agent_report")
    class CapabilitiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    KEYSET_VERSION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    HIGH_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TASKS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OPEN_TASKS_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_OLDEST_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_TYPES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    AGENT_COMMIT_FIELD_NUMBER: _ClassVar[int]
    AGENT_REPORT_FIELD_NUMBER: _ClassVar[int]
    agent_version: str
    boot_id: str
    keyset_version: int
    catalog_version: int
    high_sequence: int
    control_epoch: int
    parallel_tasks: int
    capabilities: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    open_tasks: _containers.RepeatedScalarFieldContainer[str]
    storage: str
    hold: str
    drift: str
    instance_id: str
    protocol: int
    protocol_oldest: int
    envelope_types: _containers.RepeatedScalarFieldContainer[str]
    scheduling: str
    agent_commit: str
    agent_report: bytes
    def __init__(self, agent_version: _Optional[str] = ..., boot_id: _Optional[str] = ..., keyset_version: _Optional[int] = ..., catalog_version: _Optional[int] = ..., high_sequence: _Optional[int] = ..., control_epoch: _Optional[int] = ..., parallel_tasks: _Optional[int] = ..., capabilities: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., open_tasks: _Optional[_Iterable[str]] = ..., storage: _Optional[str] = ..., hold: _Optional[str] = ..., drift: _Optional[str] = ..., instance_id: _Optional[str] = ..., protocol: _Optional[int] = ..., protocol_oldest: _Optional[int] = ..., envelope_types: _Optional[_Iterable[str]] = ..., scheduling: _Optional[str] = ..., agent_commit: _Optional[str] = ..., agent_report: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("running_tasks", "free_slots", "outbox_rows", "storage", "capabilities", "hold", "keyset_version", "catalog_version", "drift", "sample", "agent_report")
    class CapabilitiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUNNING_TASKS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    OUTBOX_ROWS_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    KEYSET_VERSION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    AGENT_REPORT_FIELD_NUMBER: _ClassVar[int]
    running_tasks: int
    free_slots: int
    outbox_rows: int
    storage: str
    capabilities: _containers.ScalarMap[str, str]
    hold: str
    keyset_version: int
    catalog_version: int
    drift: str
    sample: NodeSample
    agent_report: bytes
    def __init__(self, running_tasks: _Optional[int] = ..., free_slots: _Optional[int] = ..., outbox_rows: _Optional[int] = ..., storage: _Optional[str] = ..., capabilities: _Optional[_Mapping[str, str]] = ..., hold: _Optional[str] = ..., keyset_version: _Optional[int] = ..., catalog_version: _Optional[int] = ..., drift: _Optional[str] = ..., sample: _Optional[_Union[NodeSample, _Mapping]] = ..., agent_report: _Optional[bytes] = ...) -> None: ...

class NodeSample(_message.Message):
    __slots__ = ("at_ms", "cpu_percent", "load_1m", "memory_used_bytes", "memory_total_bytes", "disk_used_bytes", "disk_total_bytes", "gpu_percent", "gpu_memory_used_bytes", "gpu_memory_total_bytes", "containers")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    LOAD_1M_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    cpu_percent: float
    load_1m: float
    memory_used_bytes: int
    memory_total_bytes: int
    disk_used_bytes: int
    disk_total_bytes: int
    gpu_percent: float
    gpu_memory_used_bytes: int
    gpu_memory_total_bytes: int
    containers: int
    def __init__(self, at_ms: _Optional[int] = ..., cpu_percent: _Optional[float] = ..., load_1m: _Optional[float] = ..., memory_used_bytes: _Optional[int] = ..., memory_total_bytes: _Optional[int] = ..., disk_used_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., gpu_percent: _Optional[float] = ..., gpu_memory_used_bytes: _Optional[int] = ..., gpu_memory_total_bytes: _Optional[int] = ..., containers: _Optional[int] = ...) -> None: ...

class TaskAccepted(_message.Message):
    __slots__ = ("task_ids",)
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("hello", "heartbeat", "accepted", "reports", "progress")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heartbeat: Heartbeat
    accepted: TaskAccepted
    reports: Reports
    progress: Progress
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., accepted: _Optional[_Union[TaskAccepted, _Mapping]] = ..., reports: _Optional[_Union[Reports, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Reports(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[_report_pb2.Report]
    def __init__(self, reports: _Optional[_Iterable[_Union[_report_pb2.Report, _Mapping]]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[_report_pb2.StepProgress]
    def __init__(self, steps: _Optional[_Iterable[_Union[_report_pb2.StepProgress, _Mapping]]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("session_id", "server_time_ms", "control_epoch", "heartbeat_seconds", "renew_certificate", "sequence", "protocol")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RENEW_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    server_time_ms: int
    control_epoch: int
    heartbeat_seconds: int
    renew_certificate: bool
    sequence: int
    protocol: int
    def __init__(self, session_id: _Optional[str] = ..., server_time_ms: _Optional[int] = ..., control_epoch: _Optional[int] = ..., heartbeat_seconds: _Optional[int] = ..., renew_certificate: _Optional[bool] = ..., sequence: _Optional[int] = ..., protocol: _Optional[int] = ...) -> None: ...

class Tasks(_message.Message):
    __slots__ = ("envelopes",)
    ENVELOPES_FIELD_NUMBER: _ClassVar[int]
    envelopes: _containers.RepeatedCompositeFieldContainer[_envelope_pb2.Envelope]
    def __init__(self, envelopes: _Optional[_Iterable[_Union[_envelope_pb2.Envelope, _Mapping]]] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("up_to",)
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    up_to: int
    def __init__(self, up_to: _Optional[int] = ...) -> None: ...

class CatalogUpdate(_message.Message):
    __slots__ = ("manifest", "documents")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    documents: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, manifest: _Optional[bytes] = ..., documents: _Optional[_Iterable[bytes]] = ...) -> None: ...

class KeysetUpdate(_message.Message):
    __slots__ = ("keyset",)
    KEYSET_FIELD_NUMBER: _ClassVar[int]
    keyset: bytes
    def __init__(self, keyset: _Optional[bytes] = ...) -> None: ...

class WorkerPolicy(_message.Message):
    __slots__ = ("scheduling", "desired_agent_version", "report_seconds")
    SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    DESIRED_AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    REPORT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    scheduling: str
    desired_agent_version: str
    report_seconds: int
    def __init__(self, scheduling: _Optional[str] = ..., desired_agent_version: _Optional[str] = ..., report_seconds: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ("error_code", "message", "retry_after_ms")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    error_code: str
    message: str
    retry_after_ms: int
    def __init__(self, error_code: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class ControlMessage(_message.Message):
    __slots__ = ("welcome", "tasks", "ack", "catalog", "keyset", "close", "worker_policy")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    KEYSET_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    WORKER_POLICY_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    tasks: Tasks
    ack: ReportAck
    catalog: CatalogUpdate
    keyset: KeysetUpdate
    close: Close
    worker_policy: WorkerPolicy
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., tasks: _Optional[_Union[Tasks, _Mapping]] = ..., ack: _Optional[_Union[ReportAck, _Mapping]] = ..., catalog: _Optional[_Union[CatalogUpdate, _Mapping]] = ..., keyset: _Optional[_Union[KeysetUpdate, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., worker_policy: _Optional[_Union[WorkerPolicy, _Mapping]] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("session_id", "messages", "wait_seconds")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    messages: _containers.RepeatedCompositeFieldContainer[AgentMessage]
    wait_seconds: int
    def __init__(self, session_id: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[AgentMessage, _Mapping]]] = ..., wait_seconds: _Optional[int] = ...) -> None: ...

class ExchangeResponse(_message.Message):
    __slots__ = ("session_id", "messages")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    messages: _containers.RepeatedCompositeFieldContainer[ControlMessage]
    def __init__(self, session_id: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[ControlMessage, _Mapping]]] = ...) -> None: ...

class RelayOpen(_message.Message):
    __slots__ = ("relay_id",)
    RELAY_ID_FIELD_NUMBER: _ClassVar[int]
    relay_id: str
    def __init__(self, relay_id: _Optional[str] = ...) -> None: ...

class RelayData(_message.Message):
    __slots__ = ("stream", "data")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    stream: int
    data: bytes
    def __init__(self, stream: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class RelayWindow(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class RelayResize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class RelayEnd(_message.Message):
    __slots__ = ("exit_code", "error_code", "message")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    error_code: str
    message: str
    def __init__(self, exit_code: _Optional[int] = ..., error_code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class RelayBeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RelayFrame(_message.Message):
    __slots__ = ("open", "data", "window", "resize", "end", "beat")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    open: RelayOpen
    data: RelayData
    window: RelayWindow
    resize: RelayResize
    end: RelayEnd
    beat: RelayBeat
    def __init__(self, open: _Optional[_Union[RelayOpen, _Mapping]] = ..., data: _Optional[_Union[RelayData, _Mapping]] = ..., window: _Optional[_Union[RelayWindow, _Mapping]] = ..., resize: _Optional[_Union[RelayResize, _Mapping]] = ..., end: _Optional[_Union[RelayEnd, _Mapping]] = ..., beat: _Optional[_Union[RelayBeat, _Mapping]] = ...) -> None: ...
