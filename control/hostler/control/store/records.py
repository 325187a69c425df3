"""What readers hand out: frozen, JSON-ready, without the columns nobody outside needs."""

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`next_cursor` is "" on the last page."""

    items: tuple[T, ...]
    next_cursor: str = ""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    role: str
    org_id: str
    project_id: str
    state: str
    expires_at_ms: int
    created_at_ms: int


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """DM-05 and OB-05. `plan` is what the step would change, in plan mode."""

    step_id: str
    step_index: int
    step_kind: str
    attempt_number: int
    status: str
    resolved_profile: str
    hardware_match: str
    error_code: str
    error_message: str
    error_hint: str
    started_at_ms: int
    finished_at_ms: int
    duration_ms: int
    recovered: bool
    receipt_digest: str
    outputs: Any
    plan: Any


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are those of every attempt, oldest attempt first."""

    task_id: str
    node_id: str
    node_name: str
    replica_index: int
    status: str
    attempt_number: int
    attempt_uid: str
    sequence: int
    envelope_digest: str
    accepted_at_ms: int
    cancel_requested: bool
    approved_plan_digest: str
    plan_digest: str
    error_code: str
    error_message: str
    error_hint: str
    failed_step_id: str
    started_at_ms: int
    finished_at_ms: int
    waiting_for: str = ""
    steps: tuple[StepView, ...] = ()


class OperationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """OP-07, and how far it is."""

    operation_id: str
    operation_type: str
    version: str
    definition_digest: str
    org_id: str
    project_id: str
    requested_by_user_id: str
    target_selector: Any
    idempotency_key: str
    correlation_id: str
    traceparent: str
    mode: str
    trigger_source: str
    linked_allocation_id: str | None
    linked_node_id: str | None
    backend_type: str
    child_cluster: str
    status: str
    attempt_number: int
    total_steps: int
    tasks_total: int
    tasks_queued: int
    tasks_in_flight: int
    tasks_succeeded: int
    tasks_failed: int
    tasks_canceled: int
    cancel_requested_ms: int
    error_code: str
    error_message: str
    failed_task_id: str
    failed_step_id: str
    created_at_ms: int
    started_at_ms: int
    finished_at_ms: int


class OperationView(OperationSummary, frozen=True, kw_only=True):
    inputs: Any
    policy: Any
    policy_digest: str
    tasks: tuple[TaskView, ...]


class NodeMeasured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How busy a node was, `at_ms` by our clock. What nobody could tell is not there."""

    at_ms: int
    cpu_percent: float | None = None
    load_1m: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    disk_used_bytes: float | None = None
    disk_total_bytes: float | None = None
    gpu_percent: float | None = None
    gpu_memory_used_bytes: float | None = None
    gpu_memory_total_bytes: float | None = None
    containers: float | None = None


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is what was decided (`active`, `revoked`), `connection` what is seen: `enrolling` until its agent has
    come for the first time, `connected`, `lost`, and `retired` once it is revoked (OD-15).

    `worker_policy` has one entry for each party that has cordoned or drained the node. `telemetry` is the newest, shown
    with one node.
    """

    node_id: str
    name: str
    org_id: str
    project_id: str
    state: str
    connection: str
    thumbprint: str
    labels: dict[str, str]
    capabilities: dict[str, str]
    agent_version: str
    boot_id: str
    keyset_version: int
    catalog_version: int
    parallel_tasks: int
    storage: str
    enrolled_at_ms: int
    last_seen_ms: int
    revoked_at_ms: int
    hold: str
    drift: str
    pool: bool
    allocation_id: str
    health: str
    health_reason: str
    scheduling: str
    reclaim: str
    certificate_expires_ms: int = 0
    worker_policy: Any = ()
    telemetry: NodeMeasured | None = None


class NodeTrust(msgspec.Struct, frozen=True):
    """What a node has proved: the keyset and catalog it reported, the issuer of the certificate it used last."""

    node_id: str
    name: str
    connection: str
    keyset_version: int
    catalog_version: int
    certificate_pem: str
    certificate_expires_ms: int


class AssignedTask(msgspec.Struct, frozen=True):
    task_id: str
    operation_id: str
    node_id: str
    state: str
    signed_by: str  # key ids, separated by blanks


class NodeIdentity(msgspec.Struct, frozen=True):
    """What a session is checked against on every request (PK-07)."""

    node_id: str
    name: str
    thumbprint: str
    public_key: bytes
    revoked: bool
    org_id: str
    project_id: str
    certificate_expires_ms: int


class DefinitionView(msgspec.Struct, frozen=True, kw_only=True):
    ref: str
    operation_type: str
    version: str
    backend_type: str
    digest: str
    state: str
    total_steps: int
    catalog_version: int
    registered_at_ms: int
    description: str  # "" where the document's own holds
    default_channel: str
    deprecation_note: str
    document: Any


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """`partial`: no newline came after it; the line goes on in the next of its stream, or the output ended there."""

    id: int
    operation_id: str
    task_id: str
    node_id: str
    node_name: str
    attempt_uid: str
    step_id: str
    step_index: int
    stream: str
    text: str
    at_ms: int
    partial: bool = False
    phase: str = ""


class ArtifactView(msgspec.Struct, frozen=True, kw_only=True):
    """DM-06. `downloadable`: the content is kept here; of everything else only the digest is."""

    artifact_id: str
    task_id: str
    node_id: str
    node_name: str
    attempt_number: int
    step_id: str
    step_index: int
    name: str
    kind: str
    sha256: str
    size_bytes: int
    media_type: str
    uri: str
    at_ms: int
    downloadable: bool


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    at_ms: int
    type: str
    org_id: str
    project_id: str
    operation_id: str
    operation_type: str
    task_id: str
    node_id: str
    correlation_id: str
    resource_name: str
    error_code: str
    body: Any


class ParkedView(msgspec.Struct, frozen=True):
    """An event that a receiver did not take; `due` while it is being sent again."""

    event_id: int
    event_type: str
    parked_at_ms: int
    reason: str
    state: str


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    types: of events, and families; empty for all.
    position: id of the last event that is not owed any more.
    attempts: at the event after `position`, in vain.
    """

    webhook_id: str
    org_id: str
    project_id: str
    url: str
    types: tuple[str, ...]
    state: str
    created_by: str
    created_at_ms: int
    position: int
    delivered: int
    parked: int
    attempts: int
    failing_since_ms: int
    next_attempt_ms: int
    last_delivery_ms: int
    last_error: str


class BundleView(msgspec.Struct, frozen=True, kw_only=True):
    """A code bundle of a project; its bytes are the plain tar that has this digest."""

    sha256: str
    size_bytes: int
    created_by: str
    created_at_ms: int
    last_used_ms: int


class EndpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A name that leads to a running task. `lease_deadline_ms` is None for one that never expires."""

    endpoint_id: str
    name: str
    namespace: str
    address: str
    metadata: Any
    task_id: str
    attempt_uid: str
    operation_id: str
    node_id: str
    node_name: str
    registered_at_ms: int
    renewed_at_ms: int
    lease_deadline_ms: int | None


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One mutation, made or refused (DM-08). `before` is null for what was made, `after` for what is gone."""

    id: int
    at_ms: int
    actor_kind: str
    actor: str
    scope: str
    action: str
    resource_name: str
    result: str
    error_code: str
    correlation_id: str
    before: Any
    after: Any
    body: Any


class StoredCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`envelope` is DSSE JSON, `countersignatures` are what witnesses have said of it."""

    index: int
    digest: str
    at_ms: int
    envelope: bytes
    countersignatures: tuple[bytes, ...]


class ChainReach(msgspec.Struct, frozen=True):
    """How far a node's chain is in a checkpoint, or how far it has come: receipts, digest of the last one."""

    node_id: str
    length: int
    digest: str


class CheckpointTimes(msgspec.Struct, frozen=True):
    """When the newest checkpoint was made, and the newest one that has a countersignature; None for none.

    `unwitnessed` is the number of checkpoints after the latter.
    """

    made_ms: int | None
    witnessed_ms: int | None
    unwitnessed: int


class NodeReceipts(msgspec.Struct, frozen=True, kw_only=True):
    """One node's whole chain, in order, the key it is signed with, and a certificate for that key."""

    node_id: str
    name: str
    public_key: bytes
    thumbprint: str
    certificate: str
    receipts: tuple[bytes, ...]
