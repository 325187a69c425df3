"""The `[oidc]` table of `control.toml`."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from hostler.base.errors import error

Role = Literal["platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer", "auditor"]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whoever's `claim` is or contains `value` holds the role. The first that fits counts."""

    claim: Text
    value: Text
    role: Role
    org_id: str = ""
    project_id: str = ""


class OidcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    issuer: exactly as the tokens name it.
    audience: what tokens for this control plane are made out to.
    jwks_url: where the issuer's keys are; found by its discovery document when empty.
    ca_file: CA certificates (PEM) of an issuer outside the system's store.
    name_claim: what a person is called in the audit; their `sub` where a token lacks it.
    """

    issuer: Text
    audience: Text
    jwks_url: str = ""
    ca_file: str = ""
    name_claim: Text = "sub"
    bindings: tuple[Binding, ...] = ()


def check(settings: OidcSettings) -> None:
    """Raises `invalid_config` for what could never work, or would not be safe."""
    for name in ("issuer", "jwks_url"):
        url = getattr(settings, name)
        if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
            raise error("invalid_config", f"oidc.{name} {url!r} is not an https address")
    for index, binding in enumerate(settings.bindings):
        wants_org = binding.role not in ("platform_admin", "auditor")
        wants_project = binding.role.startswith("project_")
        if bool(binding.org_id) != wants_org or bool(binding.project_id) != wants_project:
            raise error("invalid_config", f"oidc.bindings[{index}]: role {binding.role} has another scope")
