"""Names in certificates: SPIFFE ids, and the DNS name that only a control plane carries. No X.509 code."""

import re

from hostler.base.errors import error

SPIFFE = re.compile(
    r"spiffe://([a-z0-9][a-z0-9.-]{0,252})/(node|control)/([A-Za-z0-9][A-Za-z0-9._-]{0,127})",
    re.ASCII,
)


def spiffe_id(trust_domain: str, role: str, name: str) -> str:
    """Raises `invalid_config` for names that make no valid id."""
    uri = f"spiffe://{trust_domain}/{role}/{name}"
    if SPIFFE.fullmatch(uri) is None:
        raise error("invalid_config", f"{uri!r} is no valid identity")
    return uri


def control_dns_name(trust_domain: str) -> str:
    """The name agents expect of the server they dial; no node certificate carries it."""
    return f"control.{trust_domain}"
