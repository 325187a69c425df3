from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StepStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_STATUS_UNSPECIFIED: _ClassVar[StepStatus]
    STEP_STATUS_RUNNING: _ClassVar[StepStatus]
    STEP_STATUS_SUCCEEDED: _ClassVar[StepStatus]
    STEP_STATUS_FAILED: _ClassVar[StepStatus]
    STEP_STATUS_CANCELED: _ClassVar[StepStatus]
    STEP_STATUS_REUSED: _ClassVar[StepStatus]
    STEP_STATUS_PLANNED: _ClassVar[StepStatus]

class TaskStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATUS_UNSPECIFIED: _ClassVar[TaskStatus]
    TASK_STATUS_RUNNING: _ClassVar[TaskStatus]
    TASK_STATUS_SUCCEEDED: _ClassVar[TaskStatus]
    TASK_STATUS_FAILED: _ClassVar[TaskStatus]
    TASK_STATUS_CANCELED: _ClassVar[TaskStatus]
    TASK_STATUS_REFUSED: _ClassVar[TaskStatus]
    TASK_STATUS_PLANNED: _ClassVar[TaskStatus]
STEP_STATUS_UNSPECIFIED: StepStatus
STEP_STATUS_RUNNING: StepStatus
STEP_STATUS_SUCCEEDED: StepStatus
STEP_STATUS_FAILED: StepStatus
STEP_STATUS_CANCELED: StepStatus
STEP_STATUS_REUSED: StepStatus
STEP_STATUS_PLANNED: StepStatus
TASK_STATUS_UNSPECIFIED: TaskStatus
TASK_STATUS_RUNNING: TaskStatus
TASK_STATUS_SUCCEEDED: TaskStatus
TASK_STATUS_FAILED: TaskStatus
TASK_STATUS_CANCELED: TaskStatus
TASK_STATUS_REFUSED: TaskStatus
TASK_STATUS_PLANNED: TaskStatus

class StepProgress(_message.Message):
    __slots__ = ("task_id", "attempt_uid", "step_id", "step_index", "done_units", "total_units", "unit", "note", "at_ms")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    DONE_UNITS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_UNITS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    done_units: int
    total_units: int
    unit: str
    note: str
    at_ms: int
    def __init__(self, task_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ..., step_id: _Optional[str] = ..., step_index: _Optional[int] = ..., done_units: _Optional[int] = ..., total_units: _Optional[int] = ..., unit: _Optional[str] = ..., note: _Optional[str] = ..., at_ms: _Optional[int] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("task_id", "attempt_uid", "step_id", "step_index", "stream", "text", "at_ms", "partial", "phase")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    stream: str
    text: str
    at_ms: int
    partial: bool
    phase: str
    def __init__(self, task_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ..., step_id: _Optional[str] = ..., step_index: _Optional[int] = ..., stream: _Optional[str] = ..., text: _Optional[str] = ..., at_ms: _Optional[int] = ..., partial: _Optional[bool] = ..., phase: _Optional[str] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("name", "kind", "sha256", "size_bytes", "media_type", "uri", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    sha256: str
    size_bytes: int
    media_type: str
    uri: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., media_type: _Optional[str] = ..., uri: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class StepReport(_message.Message):
    __slots__ = ("task_id", "attempt_uid", "step_id", "step_index", "step_kind", "status", "error_code", "error_message", "error_hint", "started_at_ms", "finished_at_ms", "outputs_json", "resolved_profile", "hardware_match", "recovered", "receipt", "receipt_digest", "chain_index", "plan_json", "artifacts")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    STEP_KIND_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_HINT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_JSON_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_PROFILE_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_MATCH_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHAIN_INDEX_FIELD_NUMBER: _ClassVar[int]
    PLAN_JSON_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    step_kind: str
    status: StepStatus
    error_code: str
    error_message: str
    error_hint: str
    started_at_ms: int
    finished_at_ms: int
    outputs_json: bytes
    resolved_profile: str
    hardware_match: str
    recovered: bool
    receipt: bytes
    receipt_digest: str
    chain_index: int
    plan_json: bytes
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    def __init__(self, task_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ..., step_id: _Optional[str] = ..., step_index: _Optional[int] = ..., step_kind: _Optional[str] = ..., status: _Optional[_Union[StepStatus, str]] = ..., error_code: _Optional[str] = ..., error_message: _Optional[str] = ..., error_hint: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., outputs_json: _Optional[bytes] = ..., resolved_profile: _Optional[str] = ..., hardware_match: _Optional[str] = ..., recovered: _Optional[bool] = ..., receipt: _Optional[bytes] = ..., receipt_digest: _Optional[str] = ..., chain_index: _Optional[int] = ..., plan_json: _Optional[bytes] = ..., artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ...) -> None: ...

class TaskReport(_message.Message):
    __slots__ = ("task_id", "attempt_uid", "status", "error_code", "error_message", "error_hint", "failed_step_id", "at_ms", "envelope_digest", "plan_digest", "receipt", "receipt_digest", "chain_index", "replayed")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_HINT_FIELD_NUMBER: _ClassVar[int]
    FAILED_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PLAN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHAIN_INDEX_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_uid: str
    status: TaskStatus
    error_code: str
    error_message: str
    error_hint: str
    failed_step_id: str
    at_ms: int
    envelope_digest: str
    plan_digest: str
    receipt: bytes
    receipt_digest: str
    chain_index: int
    replayed: bool
    def __init__(self, task_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ..., status: _Optional[_Union[TaskStatus, str]] = ..., error_code: _Optional[str] = ..., error_message: _Optional[str] = ..., error_hint: _Optional[str] = ..., failed_step_id: _Optional[str] = ..., at_ms: _Optional[int] = ..., envelope_digest: _Optional[str] = ..., plan_digest: _Optional[str] = ..., receipt: _Optional[bytes] = ..., receipt_digest: _Optional[str] = ..., chain_index: _Optional[int] = ..., replayed: _Optional[bool] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("outbox_seq", "step", "task", "log")
    OUTBOX_SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    outbox_seq: int
    step: StepReport
    task: TaskReport
    log: LogLine
    def __init__(self, outbox_seq: _Optional[int] = ..., step: _Optional[_Union[StepReport, _Mapping]] = ..., task: _Optional[_Union[TaskReport, _Mapping]] = ..., log: _Optional[_Union[LogLine, _Mapping]] = ...) -> None: ...
