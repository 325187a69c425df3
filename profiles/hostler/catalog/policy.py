"""The effective policy: a merge that can only tighten, and the sources it admits (X24, AZ-06)."""

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from hostler.base.digest import digest_of
from hostler.base.errors import error
from hostler.wire.task import Policy

TARGET_KINDS = ("node", "allocation", "group")
_LARGEST = 2**53 - 1  # what JSON carries unharmed
_LONGEST_LIST = 256
_LONGEST_SOURCE = 1024


class PolicyOverlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one scope (global, tenant, project) adds; `None` says nothing (AZ-07)."""

    enabled: bool | None = None
    max_concurrency: int | None = None
    timeout_seconds: int | None = None
    allowed_artifact_sources: tuple[str, ...] | None = None
    allowed_target_kinds: tuple[str, ...] | None = None
    require_signature_verification: bool | None = None
    max_artifact_size_bytes: int | None = None


def merge(parent: Policy, child: PolicyOverlay) -> Policy:
    """`parent` tightened by `child`: deny and require by OR, maxima by MIN, allow-lists by intersection."""
    return Policy(
        enabled=parent.enabled and child.enabled is not False,
        max_concurrency=_tighter(parent.max_concurrency, child.max_concurrency),
        timeout_seconds=_tighter(parent.timeout_seconds, child.timeout_seconds),
        allowed_artifact_sources=_both_sources(parent.allowed_artifact_sources, child.allowed_artifact_sources),
        allowed_target_kinds=_both(parent.allowed_target_kinds, child.allowed_target_kinds),
        require_signature_verification=parent.require_signature_verification
        or bool(child.require_signature_verification),
        max_artifact_size_bytes=_tighter(parent.max_artifact_size_bytes, child.max_artifact_size_bytes),
    )


def weakened(parent: Policy, child: PolicyOverlay) -> str:
    """The first key by which `child` would allow more than `parent` does; "" if it only tightens (S3, X24)."""
    looser = {
        "enabled": child.enabled is True and not parent.enabled,
        "max_concurrency": _is_looser(parent.max_concurrency, child.max_concurrency),
        "timeout_seconds": _is_looser(parent.timeout_seconds, child.timeout_seconds),
        "allowed_artifact_sources": any(
            not any(covers(theirs, mine) for theirs in parent.allowed_artifact_sources)
            for mine in child.allowed_artifact_sources or ()
        )
        if parent.allowed_artifact_sources is not None
        else False,
        "allowed_target_kinds": parent.allowed_target_kinds is not None
        and not set(child.allowed_target_kinds or ()) <= set(parent.allowed_target_kinds),
        "require_signature_verification": child.require_signature_verification is False
        and parent.require_signature_verification,
        "max_artifact_size_bytes": _is_looser(parent.max_artifact_size_bytes, child.max_artifact_size_bytes),
    }
    return next((key for key, is_looser in looser.items() if is_looser), "")


def check_overlay(overlay: PolicyOverlay) -> None:
    """Raises `invalid_request` with a pointer to the value that cannot be meant."""
    for key in ("max_concurrency", "timeout_seconds", "max_artifact_size_bytes"):
        limit = getattr(overlay, key)
        if limit is not None and not 0 <= limit <= _LARGEST:
            raise error("invalid_request", f"{key} is a whole number of at least 0", pointer=f"/{key}")
    for index, source in enumerate(overlay.allowed_artifact_sources or ()):
        if _parts(source) is None or len(source) > _LONGEST_SOURCE:
            pointer = f"/allowed_artifact_sources/{index}"
            raise error(
                "invalid_request", "an artifact source is a URL prefix such as https://host/path", pointer=pointer
            )
    for index, kind in enumerate(overlay.allowed_target_kinds or ()):
        if kind not in TARGET_KINDS:
            raise error(
                "invalid_request",
                f"a target kind is one of {', '.join(TARGET_KINDS)}",
                pointer=f"/allowed_target_kinds/{index}",
            )
    if max(len(overlay.allowed_artifact_sources or ()), len(overlay.allowed_target_kinds or ())) > _LONGEST_LIST:
        raise error("invalid_request", f"a list has at most {_LONGEST_LIST} entries")


def overlay_of(policy: Policy) -> PolicyOverlay:
    """An overlay that tightens any parent to no more than `policy`."""
    return PolicyOverlay(**{name: getattr(policy, name) for name in policy.__struct_fields__})


def policy_digest(policy: Policy) -> str:
    return digest_of(msgspec.to_builtins(policy))


def allows_source(policy: Policy, definition_sources: Iterable[str] | None, url: str) -> bool:
    """Whether both the policy's and the definition's allow-lists admit `url` (AR-06)."""
    lists = (policy.allowed_artifact_sources, definition_sources)
    return all(allowed is None or any(covers(p, url) for p in allowed) for allowed in lists)


def covers(prefix: str, url: str) -> bool:
    """Whether `url` lies under `prefix`: same scheme, host and port; path below, on a `/` boundary.

    Never by text alone: `https://a.example` does not cover `https://a.example.evil`, nor a URL with user
    information, `..` or an encoded slash or dot in its path.
    """
    base, asked = _parts(prefix), _parts(url)
    if base is None or asked is None or base[:3] != asked[:3]:
        return False
    root = base[3].rstrip("/")
    return asked[3] == root or asked[3].startswith(f"{root}/")


def _parts(url: str) -> tuple[str, str, int, str] | None:
    try:
        split = urlsplit(url)
        port = split.port or {"https": 443, "http": 80}.get(split.scheme, 0)
    except ValueError:
        return None
    path = split.path or "/"
    lowered = path.lower()
    unsafe = "\\" in url or "@" in split.netloc or any(mark in lowered for mark in ("%2e", "%2f", "%5c"))
    if unsafe or ".." in path.split("/") or not split.hostname or not url.isascii() or not url.isprintable():
        return None
    return split.scheme, split.hostname, port, path


def _tighter(parent: int, child: int | None) -> int:
    """The smaller limit; 0 and None mean no limit."""
    limits = [limit for limit in (parent, child or 0) if limit > 0]
    return min(limits, default=0)


def _is_looser(parent: int, child: int | None) -> bool:
    return child is not None and parent > 0 and (child == 0 or child > parent)


def _both(parent: tuple[str, ...] | None, child: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if parent is None or child is None:
        return child if parent is None else parent
    return tuple(item for item in parent if item in child)


def _both_sources(parent: tuple[str, ...] | None, child: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Intersection of prefixes: of two that overlap, the longer one."""
    if parent is None or child is None:
        return child if parent is None else parent
    kept = [mine for mine in child if any(covers(theirs, mine) for theirs in parent)]
    kept += [theirs for theirs in parent if any(covers(mine, theirs) for mine in child)]
    return tuple(dict.fromkeys(kept))
