"""What the control plane asks of a node: made by `control.dispatch`, read by `agent.admission`."""

from enum import StrEnum

import msgspec


class TaskMode(StrEnum):
    APPLY = "apply"
    PLAN = "plan"


class StepSpec(msgspec.Struct, frozen=True):
    """One step of the definition, as signed: bindings in `params_json` are still unresolved."""

    step_id: str
    kind: str
    params_json: bytes
    timeout_seconds: int
    reusable: bool = True
    command_profile: str = ""
    command_digest: str = ""


class Policy(msgspec.Struct, frozen=True):
    """The effective policy (seed 004 §11), already merged over global, tenant and project.

    A maximum of 0 means no limit; a `None` allow-list means no restriction, an empty one forbids all.
    """

    enabled: bool = True
    max_concurrency: int = 0
    timeout_seconds: int = 0
    allowed_artifact_sources: tuple[str, ...] | None = None
    allowed_target_kinds: tuple[str, ...] | None = None
    require_signature_verification: bool = False
    max_artifact_size_bytes: int = 0


class ReusedStep(msgspec.Struct, frozen=True):
    step_id: str
    receipt_digest: str
    outputs_json: bytes


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One operation's share for one node. Times are Unix milliseconds, digests hex SHA-256."""

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
    allocation_id: str = ""
    attempt_number: int = 1
    attempt_uid: str
    replica_index: int = 0
    sequence: int
    nonce: bytes
    not_before_ms: int
    expires_at_ms: int
    steps: tuple[StepSpec, ...]
    inputs_json: bytes
    inputs_digest: str
    policy: Policy
    policy_digest: str
    control_epoch: int
    correlation_id: str
    traceparent: str = ""
    mode: TaskMode = TaskMode.APPLY
    approved_plan_digest: str = ""
    reused: tuple[ReusedStep, ...] = ()
    timeout_seconds: int = 0
    trigger_source: str = ""


class CancelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a task: a signed order of its own, under the same gates."""

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
