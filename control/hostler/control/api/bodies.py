"""What requests carry, and answers that are no records of the store. The OpenAPI document is made from these.

Requests are strict: an unknown field is refused. Answers may gain fields.
"""

from typing import Annotated, Any, Literal

import msgspec

from hostler.control.kernel.commands import TargetSelector

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
    """

    operation_type: str
    version: str
    target_selector: TargetSelector
    inputs: dict[str, Any] = {}
    idempotency_key: Key = ""
    mode: Literal["apply", "plan"] = "apply"
    approved_plans: dict[str, str] = {}
    correlation_id: Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$(?!\n)")] = ""


class EnrolmentToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    node_name: Name
    org_id: Name
    project_id: Name
    labels: dict[str, str] = {}
    valid_seconds: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400)] = 3600


class NewPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`org_id` and `project_id` limit the role to a tenant or project; a platform_admin has no limit."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9@._-]{0,62}$(?!\n)")]
    role: Literal["platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer"]
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


class DefinitionState(msgspec.Struct, frozen=True):
    ref: str
    state: str


class NodeState(msgspec.Struct, frozen=True):
    node_id: str
    state: str


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
    """`created` is false when the idempotency key had been used; `deprecated` warns of the definition (OP-18)."""

    operation_id: str
    created: bool
    deprecated: bool
    correlation_id: str


class OperationRef(msgspec.Struct, frozen=True):
    operation_id: str
