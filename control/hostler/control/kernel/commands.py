"""Everything that can change the control plane's state, as frozen data.

A command is made at an edge (HTTP, RPC, a loop), executed by `control.engine` in one transaction, and
answered with the result named in its docstring or with a `HostlerError`.
"""

from typing import Any

import msgspec

from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.actor import Actor as Actor  # noqa: PLC0414 - it is looked for here
from hostler.control.kernel.permitted import Answer
from hostler.wire.mint import MintRequest
from hostler.wire.node import Hello
from hostler.wire.report import Report
from hostler.wire.task import TaskMode


class TargetSelector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which nodes: by id or name, or by labels that all must match. Frozen to node ids at submit.

    Attributes:
        allocation: only nodes of this allocation; all of them unless some are named or labels given.
        replicas: tasks per selected node.
    """

    nodes: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    replicas: int = 1
    allocation: str = ""


class SubmitOperation(msgspec.Struct, frozen=True, kw_only=True):
    """→ `OperationCreated`."""

    actor: Actor
    org_id: str
    project_id: str
    operation_type: str
    version: str
    inputs: dict[str, Any]
    target_selector: TargetSelector
    idempotency_key: str
    correlation_id: str
    traceparent: str = ""
    mode: TaskMode = TaskMode.APPLY
    approved_plans: dict[str, str] = {}  # node_id -> plan digest
    require_plan_approval: bool = False
    limits: PolicyOverlay = PolicyOverlay()  # what the request itself tightens
    trigger_source: str = "tenant_request"
    linked_allocation_id: str = ""
    linked_node_id: str = ""
    answer: Answer | None = None  # of the policy engine, where there is one


class OperationCreated(msgspec.Struct, frozen=True):
    """`created` is False when the idempotency key had been used with the same body.

    `deprecated` says that the definition version still runs and will not for ever (OP-18).
    """

    operation_id: str
    created: bool
    deprecated: bool = False
    deprecation_note: str = ""


class CancelOperation(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. Queued tasks end at once, running ones when their agent has confirmed (OP-17)."""

    actor: Actor
    project_id: str
    operation_id: str


class RetryOperation(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A new attempt of every task that did not succeed, from its first failed step (RT-03)."""

    actor: Actor
    project_id: str
    operation_id: str


class RegisterCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """→ list of newly registered `type@version`. The engine verifies signatures before the kernel."""

    actor: Actor
    manifest: bytes  # DSSE JSON
    documents: tuple[bytes, ...]


class SetDefinitionState(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. active → deprecated → retired, never back (OP-18)."""

    actor: Actor
    ref: str
    state: str


class DescribeDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. Changes words about a version; None leaves one as it is (API-02)."""

    actor: Actor
    ref: str
    description: str | None = None
    default_channel: str | None = None
    deprecation_note: str | None = None


class PutPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """→ the overlay's revision. The empty overlay says nothing.

    Attributes:
        org_id: the tenant that the scope belongs to; "" for global, and for a project that owns nothing yet.
        expected_revision: refused with `policy_changed` when the stored one is another; None asks for nothing.
    """

    actor: Actor
    scope: str
    scope_id: str
    org_id: str
    operation_type: str
    overlay: PolicyOverlay
    expected_revision: int | None = None


class CreateEnrolmentToken(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. Only the token's hash is stored."""

    actor: Actor
    token_id: str
    token_sha256: str
    node_name: str
    org_id: str
    project_id: str
    labels: dict[str, str]
    expires_at_ms: int


class EnrollNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ `NodeEnrolled`. Exactly one of two racing hosts wins; the loss is an alarm event (PK-02, I5)."""

    token_id: str
    token_sha256: str
    public_key_spki: bytes
    thumbprint: str
    agent_version: str
    labels: dict[str, str]
    peer: str  # network address, for the alarm only
    runner_key: bytes = b""  # SPKI DER; signs the node's requests for credentials


class NodeEnrolled(msgspec.Struct, frozen=True):
    node_id: str
    name: str
    org_id: str
    project_id: str


class RecordCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. Issued, not yet proved: old and new are both accepted until the new one is used (PK-04)."""

    node_id: str
    serial: str
    thumbprint: str
    not_before_ms: int
    not_after_ms: int
    certificate_pem: str = ""  # for audit bundles: it ties the node's key to the CA


class RevokeNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. The node's streams are closed at once."""

    actor: Actor
    node_id: str


class NodeHello(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A session began. `serial` is the certificate it came with: its first use proves it (PK-04)."""

    node_id: str
    session_id: str
    hello: Hello
    serial: str = ""


class NodeGone(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A session ended; ignored when a newer session is open."""

    node_id: str
    session_id: str


class TasksAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. The agent has these in its journal: they are not delivered again."""

    node_id: str
    task_ids: tuple[str, ...]


class FoldReports(msgspec.Struct, frozen=True, kw_only=True):
    """→ the highest outbox sequence that is now stored. Folded once, however often it is sent."""

    node_id: str
    reports: tuple[Report, ...]


class ExpireTasks(msgspec.Struct, frozen=True, kw_only=True):
    """→ number of tasks ended as `expired`: their window passed before any agent took them."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A heartbeat that says something new; no capabilities: they are as they were."""

    node_id: str
    keyset_version: int
    catalog_version: int
    storage: str
    hold: str
    drift: str
    capabilities: dict[str, str] = {}


class ReleaseNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A person has looked into why a node was held, and trusts it again."""

    actor: Actor
    node_id: str


class PublishKeyset(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. The engine verifies it before the kernel."""

    actor: Actor
    keyset: bytes  # DSSE JSON
    replaces: int = 0  # version in force when it came; 0 for none


class RecoverEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """→ number of tasks asked for again. `control_epoch` is what the root has signed."""

    actor: Actor
    control_epoch: int


class ControlStarted(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. The process began: no session is open yet, whatever the last one left behind."""

    actor: Actor = Actor(kind="system", name="hostler-control", role="platform_admin")
    dispatch_key_id: str = ""


class CreatePrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. Only the bearer token's hash is stored."""

    actor: Actor
    name: str
    token_sha256: str
    role: str
    org_id: str
    project_id: str
    expires_at_ms: int


class RevokePrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """→ None."""

    actor: Actor
    name: str


class RecordRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A mutation that the edge refused before it became a command: a line of the audit (SE-02)."""

    actor: Actor
    action: str
    resource_name: str
    error_code: str
    message: str
    correlation_id: str


class GrownChain(msgspec.Struct, frozen=True):
    """A node's chain has reached `length` receipts, the last of which has this digest."""

    node_id: str
    length: int
    digest: str


class MakeCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """→ its index. Made by the loop that reads the chains; `heads` are those that moved since the last one."""

    index: int
    heads: tuple[GrownChain, ...]
    root: str
    nodes: int
    receipts: int


class RecordCountersignature(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. `document` was verified against the witness keys of the keyset; `checkpoint` is a digest."""

    actor: Actor
    index: int
    checkpoint: str
    keyid: str
    document: bytes


class AuthorizeMint(msgspec.Struct, frozen=True, kw_only=True):
    """→ `MintGrant`, or None where `wait` is set and the step's start has not been reported yet.

    The request's signature was verified before; `node_id` is the certificate's.
    """

    actor: Actor
    node_id: str
    request: MintRequest
    wait: bool = False

    @property
    def task_id(self) -> str:
        return self.request.task_id


class MintGrant(msgspec.Struct, frozen=True, kw_only=True):
    """`deadline_ms` is the task's: no credential is good for longer."""

    number: int
    org_id: str
    project_id: str
    deadline_ms: int
    part: str


class RecordMint(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. What came of a grant; refused when the task has ended or was cancelled meanwhile."""

    actor: Actor
    node_id: str
    request: MintRequest
    number: int
    minter: str = ""
    error_code: str = ""
    expires_at_ms: int = 0

    @property
    def task_id(self) -> str:
        return self.request.task_id
