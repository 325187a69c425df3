"""State rows as frozen structs. Field order is column order; JSON columns hold their text.

`KEY` names the primary key, `FIXED` the columns that never change after the insert.
"""

from typing import ClassVar

import msgspec


class Row(msgspec.Struct, frozen=True):
    """Base of all rows; `key` is what a row is found by."""

    KEY: ClassVar[tuple[str, ...]] = ()
    FIXED: ClassVar[tuple[str, ...]] = ()


class NodeRow(Row, frozen=True, kw_only=True):
    """Connection is seen by us (`connected`, `lost`), state is decided by people (`active`, `revoked`).
    Org and project are who holds the node: its owner, or for a node of the pool whoever has it now (OD-15)."""

    KEY = ("node_id",)
    FIXED = ("name", "enrolled_at_ms", "pool")

    node_id: str
    name: str
    org_id: str
    project_id: str
    state: str = "active"
    connection: str = "never"
    session_id: str = ""
    public_key: bytes
    thumbprint: str
    labels: str
    capabilities: str = "{}"
    agent_version: str = ""
    boot_id: str = ""
    keyset_version: int = 0
    catalog_version: int = 0
    parallel_tasks: int = 1
    storage: str = "ok"
    enrolled_at_ms: int
    last_seen_ms: int = 0
    revoked_at_ms: int = 0
    hold: str = ""  # error_code while nothing is sent to it
    drift: str = ""
    instance_id: str = ""  # of the agent process that speaks for it
    past_instances: str = "[]"
    pool: int = 0  # 1: it is lent by allocations
    allocation_id: str = ""
    health: str = "ok"
    health_reason: str = ""
    quarantined_at_ms: int = 0
    quarantined_by: str = ""  # person | chain
    scheduling: str = "schedulable"
    reclaim: str = "clean"
    reclaimed_at_ms: int = 0
    baseline_of: str = ""  # whose baseline a probe compares with


class CursorRow(Row, frozen=True, kw_only=True):
    """Where a node stands: what we numbered, what it took, what it told, how far its chain reaches."""

    KEY = ("node_id",)

    node_id: str
    sequence: int = 0
    accepted_sequence: int = 0
    outbox_seq: int = 0
    chain_index: int = -1


class CertificateRow(Row, frozen=True, kw_only=True):
    """`issued` until its first use proves that the node stored it (PK-04)."""

    KEY = ("node_id", "serial")
    FIXED = ("thumbprint", "not_before_ms", "not_after_ms", "issued_at_ms", "pem")

    node_id: str
    serial: str
    thumbprint: str
    state: str = "issued"
    not_before_ms: int
    not_after_ms: int
    issued_at_ms: int
    changed_at_ms: int = 0
    pem: str = ""


class TokenRow(Row, frozen=True, kw_only=True):
    KEY = ("token_id",)
    FIXED = ("token_sha256", "node_name", "org_id", "project_id", "labels", "created_by", "created_at_ms")

    token_id: str
    token_sha256: str
    node_name: str
    org_id: str
    project_id: str
    labels: str
    created_by: str
    created_at_ms: int
    expires_at_ms: int
    used_at_ms: int = 0
    used_by_key: str = ""
    node_id: str = ""


class PrincipalRow(Row, frozen=True, kw_only=True):
    KEY = ("name",)

    name: str
    token_sha256: str
    role: str
    org_id: str
    project_id: str
    state: str = "active"
    expires_at_ms: int
    created_at_ms: int


class DefinitionRow(Row, frozen=True, kw_only=True):
    """One immutable `type@version`; its state moves, and the words about it (OP-01, OP-18, API-02)."""

    KEY = ("ref",)
    FIXED = ("operation_type", "version", "backend_type", "digest", "document", "total_steps", "registered_at_ms")

    ref: str
    operation_type: str
    version: str
    backend_type: str
    digest: str
    document: str
    total_steps: int
    state: str = "active"
    catalog_version: int
    registered_at_ms: int
    description: str = ""  # instead of the document's own, where set
    default_channel: str = ""
    deprecation_note: str = ""


class OperationTypeRow(Row, frozen=True, kw_only=True):
    """The type itself: what its newest version is, and that version's state."""

    KEY = ("operation_type",)

    operation_type: str
    backend_type: str
    description: str
    latest_version: str
    state: str
    registered_at_ms: int


class CatalogRow(Row, frozen=True, kw_only=True):
    """A signed catalog as it was published. `documents` lists digests in order."""

    KEY = ("version",)

    version: int
    manifest: bytes
    documents: str
    commands: str
    issued_ms: int
    expires_ms: int
    registered_at_ms: int


class DocumentRow(Row, frozen=True):
    KEY = ("digest",)

    digest: str
    body: bytes


class OperationRow(Row, frozen=True, kw_only=True):
    """One execution. Counters over its tasks make its status a matter of arithmetic (OP-10)."""

    KEY = ("operation_id",)
    FIXED = (
        "operation_type",
        "version",
        "definition_digest",
        "backend_type",
        "org_id",
        "project_id",
        "requested_by_user_id",
        "target_selector",
        "inputs",
        "idempotency_key",
        "request_digest",
        "correlation_id",
        "traceparent",
        "mode",
        "trigger_source",
        "linked_allocation_id",
        "linked_node_id",
        "total_steps",
        "tasks_total",
        "created_at_ms",
    )

    operation_id: str
    operation_type: str
    version: str
    definition_digest: str
    backend_type: str
    org_id: str
    project_id: str
    requested_by_user_id: str
    target_selector: str
    inputs: str
    idempotency_key: str
    request_digest: str
    correlation_id: str
    traceparent: str
    mode: str
    trigger_source: str
    linked_allocation_id: str | None
    linked_node_id: str | None
    child_cluster: str = ""
    backend_id: str = ""
    policy: str
    policy_digest: str
    total_steps: int
    tasks_total: int
    created_at_ms: int
    deadline_ms: int
    status: str = "queued"
    attempt_number: int = 1
    tasks_queued: int
    tasks_in_flight: int = 0
    tasks_succeeded: int = 0
    tasks_failed: int = 0
    tasks_canceled: int = 0
    cancel_requested_ms: int = 0
    error_code: str = ""
    error_message: str = ""
    failed_task_id: str = ""
    failed_step_id: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0


class TaskRow(Row, frozen=True, kw_only=True):
    """An operation's share for one node, which a job's task has only once it is placed ("" before).
    `sequence` is that of its newest envelope, 0 while it has none."""

    KEY = ("task_id",)
    FIXED = ("operation_id", "child_cluster", "replica_index", "approved_plan_digest", "created_at_ms")

    task_id: str
    operation_id: str
    child_cluster: str = ""
    backend_id: str = ""
    node_id: str
    replica_index: int
    approved_plan_digest: str = ""
    created_at_ms: int
    state: str = "queued"
    attempt_number: int = 1
    attempt_uid: str
    sequence: int = 0
    envelope_digest: str = ""
    expires_at_ms: int = 0
    cancel_sequence: int = 0
    cancel_requested: int = 0
    accepted_at_ms: int = 0
    plan_digest: str = ""
    error_code: str = ""
    error_message: str = ""
    error_hint: str = ""
    failed_step_id: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    waiting_for: str = ""


class AttemptRow(Row, frozen=True, kw_only=True):
    """One try. `lost` was ended by us without the node's word; its own late word still lands here."""

    KEY = ("attempt_uid",)
    FIXED = ("task_id", "attempt_number", "reused", "created_at_ms")

    attempt_uid: str
    task_id: str
    attempt_number: int
    node_id: str
    reused: bytes = b""
    created_at_ms: int
    state: str = "open"
    exit: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0


class StepRow(Row, frozen=True, kw_only=True):
    """One step of one attempt (DM-05)."""

    KEY = ("task_id", "attempt_number", "step_index")
    FIXED = ("operation_id", "attempt_uid", "step_id", "step_kind")

    task_id: str
    attempt_number: int
    step_index: int
    operation_id: str
    attempt_uid: str
    step_id: str
    step_kind: str
    status: str
    resolved_profile: str = ""
    hardware_match: str = ""
    error_code: str = ""
    error_message: str = ""
    error_hint: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    duration_ms: int = 0
    recovered: int = 0
    receipt_digest: str = ""
    outputs: bytes = b""
    plan: bytes = b""


class ReceiptRow(Row, frozen=True, kw_only=True):
    KEY = ("node_id", "digest")

    node_id: str
    digest: str
    chain_index: int
    operation_id: str
    task_id: str
    attempt_uid: str
    step_id: str
    receipt: bytes
    at_ms: int


class EnvelopeRow(Row, frozen=True, kw_only=True):
    """Signed bytes, sent again unchanged until the node has taken them."""

    KEY = ("node_id", "sequence")

    node_id: str
    sequence: int
    task_id: str
    kind: str  # task | cancel
    digest: str
    envelope: bytes
    signed_at_ms: int
    expires_at_ms: int


class EventRow(Row, frozen=True, kw_only=True):
    """One line of the event log. `action` is set where somebody changed something: those are the audit."""

    KEY = ("id",)

    id: int = 0
    at_ms: int
    type: str
    org_id: str = ""
    project_id: str = ""
    operation_id: str = ""
    operation_type: str = ""
    task_id: str = ""
    node_id: str = ""
    correlation_id: str = ""
    resource_name: str = ""
    error_code: str = ""
    actor_kind: str = ""
    actor: str = ""
    scope: str = ""
    action: str = ""
    result: str = ""
    body: str = "{}"


class MetaRow(Row, frozen=True):
    KEY = ("name",)

    name: str
    value: str
