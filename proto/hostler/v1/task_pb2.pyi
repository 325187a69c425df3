from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_MODE_UNSPECIFIED: _ClassVar[TaskMode]
    TASK_MODE_APPLY: _ClassVar[TaskMode]
    TASK_MODE_PLAN: _ClassVar[TaskMode]
TASK_MODE_UNSPECIFIED: TaskMode
TASK_MODE_APPLY: TaskMode
TASK_MODE_PLAN: TaskMode

class StepSpec(_message.Message):
    __slots__ = ("step_id", "kind", "params_json", "timeout_seconds", "reusable", "command_profile", "command_digest")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARAMS_JSON_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REUSABLE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_PROFILE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_DIGEST_FIELD_NUMBER: _ClassVar[int]
    step_id: str
    kind: str
    params_json: bytes
    timeout_seconds: int
    reusable: bool
    command_profile: str
    command_digest: str
    def __init__(self, step_id: _Optional[str] = ..., kind: _Optional[str] = ..., params_json: _Optional[bytes] = ..., timeout_seconds: _Optional[int] = ..., reusable: _Optional[bool] = ..., command_profile: _Optional[str] = ..., command_digest: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("enabled", "max_concurrency", "timeout_seconds", "allowed_artifact_sources", "restrict_artifact_sources", "require_signature_verification", "max_artifact_size_bytes", "allowed_target_kinds", "restrict_target_kinds")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_ARTIFACT_SOURCES_FIELD_NUMBER: _ClassVar[int]
    RESTRICT_ARTIFACT_SOURCES_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_SIGNATURE_VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    MAX_ARTIFACT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TARGET_KINDS_FIELD_NUMBER: _ClassVar[int]
    RESTRICT_TARGET_KINDS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    max_concurrency: int
    timeout_seconds: int
    allowed_artifact_sources: _containers.RepeatedScalarFieldContainer[str]
    restrict_artifact_sources: bool
    require_signature_verification: bool
    max_artifact_size_bytes: int
    allowed_target_kinds: _containers.RepeatedScalarFieldContainer[str]
    restrict_target_kinds: bool
    def __init__(self, enabled: _Optional[bool] = ..., max_concurrency: _Optional[int] = ..., timeout_seconds: _Optional[int] = ..., allowed_artifact_sources: _Optional[_Iterable[str]] = ..., restrict_artifact_sources: _Optional[bool] = ..., require_signature_verification: _Optional[bool] = ..., max_artifact_size_bytes: _Optional[int] = ..., allowed_target_kinds: _Optional[_Iterable[str]] = ..., restrict_target_kinds: _Optional[bool] = ...) -> None: ...

class ReusedStep(_message.Message):
    __slots__ = ("step_id", "receipt_digest", "outputs_json")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_JSON_FIELD_NUMBER: _ClassVar[int]
    step_id: str
    receipt_digest: str
    outputs_json: bytes
    def __init__(self, step_id: _Optional[str] = ..., receipt_digest: _Optional[str] = ..., outputs_json: _Optional[bytes] = ...) -> None: ...

class TaskPayload(_message.Message):
    __slots__ = ("task_id", "operation_id", "node_id", "node_key_thumbprint", "operation_type", "version", "definition_digest", "catalog_version", "org_id", "project_id", "allocation_id", "attempt_number", "attempt_uid", "replica_index", "sequence", "nonce", "not_before_ms", "expires_at_ms", "steps", "inputs_json", "inputs_digest", "policy", "policy_digest", "control_epoch", "correlation_id", "traceparent", "mode", "approved_plan_digest", "reused", "timeout_seconds", "trigger_source")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_KEY_THUMBPRINT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    ORG_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    REPLICA_INDEX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTROL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    APPROVED_PLAN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REUSED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_SOURCE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    operation_id: str
    node_id: str
    node_key_thumbprint: str
    operation_type: str
    version: str
    definition_digest: str
    catalog_version: int
    org_id: str
    project_id: str
    allocation_id: str
    attempt_number: int
    attempt_uid: str
    replica_index: int
    sequence: int
    nonce: bytes
    not_before_ms: int
    expires_at_ms: int
    steps: _containers.RepeatedCompositeFieldContainer[StepSpec]
    inputs_json: bytes
    inputs_digest: str
    policy: Policy
    policy_digest: str
    control_epoch: int
    correlation_id: str
    traceparent: str
    mode: TaskMode
    approved_plan_digest: str
    reused: _containers.RepeatedCompositeFieldContainer[ReusedStep]
    timeout_seconds: int
    trigger_source: str
    def __init__(self, task_id: _Optional[str] = ..., operation_id: _Optional[str] = ..., node_id: _Optional[str] = ..., node_key_thumbprint: _Optional[str] = ..., operation_type: _Optional[str] = ..., version: _Optional[str] = ..., definition_digest: _Optional[str] = ..., catalog_version: _Optional[int] = ..., org_id: _Optional[str] = ..., project_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., attempt_number: _Optional[int] = ..., attempt_uid: _Optional[str] = ..., replica_index: _Optional[int] = ..., sequence: _Optional[int] = ..., nonce: _Optional[bytes] = ..., not_before_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., steps: _Optional[_Iterable[_Union[StepSpec, _Mapping]]] = ..., inputs_json: _Optional[bytes] = ..., inputs_digest: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., policy_digest: _Optional[str] = ..., control_epoch: _Optional[int] = ..., correlation_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., mode: _Optional[_Union[TaskMode, str]] = ..., approved_plan_digest: _Optional[str] = ..., reused: _Optional[_Iterable[_Union[ReusedStep, _Mapping]]] = ..., timeout_seconds: _Optional[int] = ..., trigger_source: _Optional[str] = ...) -> None: ...

class CancelPayload(_message.Message):
    __slots__ = ("task_id", "operation_id", "node_id", "node_key_thumbprint", "sequence", "nonce", "not_before_ms", "expires_at_ms", "control_epoch", "correlation_id", "attempt_uid")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_KEY_THUMBPRINT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_UID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    operation_id: str
    node_id: str
    node_key_thumbprint: str
    sequence: int
    nonce: bytes
    not_before_ms: int
    expires_at_ms: int
    control_epoch: int
    correlation_id: str
    attempt_uid: str
    def __init__(self, task_id: _Optional[str] = ..., operation_id: _Optional[str] = ..., node_id: _Optional[str] = ..., node_key_thumbprint: _Optional[str] = ..., sequence: _Optional[int] = ..., nonce: _Optional[bytes] = ..., not_before_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., control_epoch: _Optional[int] = ..., correlation_id: _Optional[str] = ..., attempt_uid: _Optional[str] = ...) -> None: ...
