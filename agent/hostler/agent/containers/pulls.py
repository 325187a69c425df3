"""Why a registry did not give out an image: engines tell it in words only."""

import re

from hostler.base.errors import HostlerError, error

_DENIED = re.compile(
    r"\b(401|403)\b|unauthorized|denied|insufficient_scope|authorization failed|fetch (oauth|anonymous) token",
    re.IGNORECASE,
)
_DIGEST = re.compile(
    r"unexpected commit (digest|size)|digest mismatch|digest does not match|verification failed for digest",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"dial tcp|connection (refused|reset)|no such host|timeout|TLS|x509|EOF|\b5\d\d\b", re.IGNORECASE
)
_QUERY = re.compile(r"\?[^\s\"'<>]+")


def by_digest(reference: str) -> str:
    """Raises `digest_required`."""
    if not re.search(r"@sha256:[0-9a-f]{64}\Z", reference):
        raise error("digest_required", f"{reference} is not named by its digest")
    return reference


def refused(reference: str, said: str) -> HostlerError:
    """`source_denied`, `digest_mismatch`, `source_unreachable` or `image_missing`."""
    why = said.replace(reference, "")  # a name is no reason
    if _DENIED.search(why):
        return error("source_denied", f"the registry does not give out {reference}: {short(why)}")
    if _DIGEST.search(why):
        return error("digest_mismatch", f"the registry sent other bytes than {reference} names: {short(why)}")
    if _UNREACHABLE.search(why):
        return error("source_unreachable", f"the registry of {reference} does not answer: {short(why)}")
    return error("image_missing", f"the registry does not have {reference}: {short(why)}")


def short(said: str) -> str:
    """Without the queries of URLs: where a registry sends its clients to, one may be a signature (S1)."""
    text = _QUERY.sub("?...", " ".join(said.split()))
    return text if len(text) <= 300 else f"...{text[-300:]}"  # the cause stands last
