"""What requests carry. Strict: an unknown field is refused. The OpenAPI document is made from these."""

from typing import Annotated, Any, Literal

import msgspec

from hostler.control.kernel.commands import TargetSelector

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$", description="1-63 characters")]
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
    correlation_id: Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")] = ""


class EnrolmentToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    node_name: Name
    org_id: Name
    project_id: Name
    labels: dict[str, str] = {}
    valid_seconds: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400)] = 3600


class NewPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`org_id` and `project_id` limit the role to a tenant or project; a platform_admin has no limit."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9@._-]{0,62}$")]
    role: Literal["platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer"]
    org_id: str = ""
    project_id: str = ""
    valid_seconds: Annotated[int, msgspec.Meta(ge=60, le=3650 * 86_400)] = 365 * 86_400


class CatalogBundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed catalog, as `hostler profiles sign` writes it (API-01)."""

    manifest: msgspec.Raw
    documents: tuple[msgspec.Raw, ...]
