"""What requests carry, and answers that are no records of the store. The OpenAPI document is made from these.

Requests are strict: an unknown field is refused. Answers may gain fields.
"""

from typing import Annotated, Any, Literal

import msgspec

from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.commands import TargetSelector
from hostler.wire.task import Policy

NAME = r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?"
END = r"$(?!\n)"  # a bare $ also matches before a last newline (J6)
Name = Annotated[str, msgspec.Meta(pattern=rf"^{NAME}{END}", description="1-63 characters")]
NameOrNone = Annotated[str, msgspec.Meta(pattern=rf"^(?:{NAME})?{END}")]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Submit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a submit.

    Attributes:
        idempotency_key: the same key and body give the same operation, another body 409 (RT-01).
        mode: `plan` reports what would change and changes nothing.
        approved_plans: node id to plan digest; the node runs only if a fresh plan is still the same.
        require_plan_approval: refuse the request unless `approved_plans` names a plan for every node.
        timeout_seconds, max_concurrency: tighter than the policy, for this operation alone; 0 asks for nothing.
    """

    operation_type: str
    version: str
    target_selector: TargetSelector
    inputs: dict[str, Any] = {}
    idempotency_key: Key = ""
    mode: Literal["apply", "plan"] = "apply"
    approved_plans: dict[str, str] = {}
    require_plan_approval: bool = False
    timeout_seconds: Annotated[int, msgspec.Meta(ge=0, le=30 * 86_400)] = 0
    max_concurrency: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    correlation_id: Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$(?!\n)")] = ""


class EnrolmentToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`pool`: the node belongs to no tenant and is lent by allocations; else tenant and project own it."""

    node_name: Name
    org_id: NameOrNone = ""
    project_id: NameOrNone = ""
    pool: bool = False
    labels: dict[str, str] = {}
    valid_seconds: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400)] = 3600


class NewPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`org_id` and `project_id` limit the role; a platform_admin and an auditor have neither."""

    name: Name
    role: Literal["platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer", "auditor"]
    org_id: NameOrNone = ""
    project_id: NameOrNone = ""
    valid_seconds: Annotated[int, msgspec.Meta(ge=60, le=3650 * 86_400)] = 365 * 86_400


class CatalogBundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed catalog, as `hostler profiles sign` writes it (API-01)."""

    manifest: msgspec.Raw
    documents: tuple[msgspec.Raw, ...]


class Registered(msgspec.Struct, frozen=True):
    """The `type@version`s that were not there before."""

    registered: tuple[str, ...]


class DefinitionWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may change about a published version; what is left out stays as it is.

    Attributes:
        description: shown instead of the document's own; "" shows that one again.
        default_channel: which agents a rollout offers it to first.
        deprecation_note: what to use instead.
    """

    description: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    default_channel: Literal["", "stable", "candidate", "pinned"] | None = None
    deprecation_note: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class DefinitionState(msgspec.Struct, frozen=True):
    ref: str
    state: str


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    overlay: what this scope says; null says nothing.
    revision: for If-Match; 0 while nothing was ever written.
    effective: the merge of every scope down to this one.
    set_by: key to the scope whose value holds; a key that nobody has set is absent.
    asked_besides: the rule of the policy engine that may refuse more; "" where there is none.
    """

    scope: str
    scope_id: str
    operation_type: str
    overlay: PolicyOverlay
    revision: int
    updated_by: str
    updated_at_ms: int
    effective: Policy
    set_by: dict[str, str]
    applies_to_every_type: bool
    asked_besides: str = ""


class NewWebhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    url: https; public, unless the control plane's configuration names its network.
    types: event types such as `operation.failed`, and families such as `node`; none for all of the scope.
    """

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]
    types: Annotated[tuple[str, ...], msgspec.Meta(max_length=50)] = ()


class WebhookMade(msgspec.Struct, frozen=True):
    """`secret` is shown this once; it is what the receiver verifies `webhook-signature` with."""

    webhook_id: str
    secret: str


class WebhookRef(msgspec.Struct, frozen=True):
    webhook_id: str


class WebhookResent(msgspec.Struct, frozen=True):
    """`events` that were parked are sent again, in the order of the log."""

    webhook_id: str
    events: int


class WebhookTried(msgspec.Struct, frozen=True):
    """`event_id` is the webhook.test event: it has been taken when the webhook's `position` is there."""

    webhook_id: str
    event_id: int


class BundleKept(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false for bytes that the project kept already."""

    sha256: str
    size_bytes: int
    created: bool


class BundleRef(msgspec.Struct, frozen=True):
    sha256: str


class NodeState(msgspec.Struct, frozen=True):
    node_id: str
    state: str


class NodeProof(msgspec.Struct, frozen=True, kw_only=True):
    """`ca_key`: which CA issued the certificate that the node used last (its subject key identifier, hex)."""

    node_id: str
    name: str
    connection: str
    keyset_version: int
    proved: bool
    ca_key: str
    certificate_expires_ms: int


class TrustView(msgspec.Struct, frozen=True, kw_only=True):
    """`keyset` is the signed document (DSSE JSON); `waiting` names the nodes that have not proved it yet."""

    keyset: str
    keyset_version: int
    control_epoch: int
    expires_ms: int
    nodes: tuple[NodeProof, ...]
    proved: int
    waiting: tuple[str, ...]
    open_tasks_by_key: dict[str, int]


class KeysetPublished(msgspec.Struct, frozen=True):
    """`affected_tasks`: open tasks whose signature no longer counts; they are signed again (T11)."""

    version: int
    control_epoch: int
    affected_tasks: tuple[str, ...]


class SignedTask(msgspec.Struct, frozen=True):
    task_id: str
    operation_id: str
    node_id: str
    state: str


class SignedTasks(msgspec.Struct, frozen=True):
    items: tuple[SignedTask, ...]


class SignedDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A DSSE envelope in JSON, such as a keyset as `hostler pki` writes it."""

    payload: str
    payload_type: str
    signatures: tuple[dict[str, str], ...]


class TokenMade(msgspec.Struct, frozen=True):
    """`token` is shown this once."""

    token: str
    token_id: str
    expires_at_ms: int


class PrincipalMade(msgspec.Struct, frozen=True):
    """`token` is shown this once."""

    name: str
    token: str


class PrincipalRevoked(msgspec.Struct, frozen=True):
    name: str
    revoked: bool = True


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false when the idempotency key had been used; `deprecated` warns of the definition (OP-18).

    `deprecation_note` says what to use instead, where somebody has written that down.
    """

    operation_id: str
    created: bool
    deprecated: bool
    deprecation_note: str = ""
    correlation_id: str


class OperationRef(msgspec.Struct, frozen=True):
    operation_id: str


class Countersigned(msgspec.Struct, frozen=True):
    """The checkpoint's index, and the id of the witness's key."""

    index: int
    keyid: str
