"""Signed releases of the agent: what one is, which may be installed, and how their metadata travels.

A release repository is a TUF repository on the publisher's disk. Its root of trust is our keyset: see
`hostler.pki.release_trust`. What a control plane and a node hold of it is one document, the newest metadata of
the four roles; the packages themselves are fetched by digest.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from hostler.base.errors import error
from hostler.base.strict import decode_json
from hostler.pki.keyset import Keyset

MAX_DOCUMENT_BYTES = 512 * 1024
MAX_RELEASES = 500
MAX_NOTES = 1000  # characters
ROLES = ("root", "timestamp", "snapshot", "targets")
SUITES = ("bookworm", "trixie")
_NUMBER = "(0|[1-9][0-9]{0,5})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:~([a-z0-9]+(?:\.[a-z0-9]+)*))?", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{40}|unknown", re.ASCII)
_FILE = re.compile("[a-z0-9][a-z0-9.+_~-]{0,199}[.]deb", re.ASCII)
_LONGEST_VERSION = 64


class Channel(StrEnum):
    """Who a release is offered to."""

    STABLE = "stable"
    CANDIDATE = "candidate"


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One package, as the update keys signed it.

    Attributes:
        version: `X.Y.Z` or `X.Y.Z~suffix`; a suffix sorts before the version without it.
        commit: 40 hex digits of the source's commit, or `unknown`.
        suite: the Debian release that it is made for.
        file: name of the package below the repository's `targets/`, without the digest before it.
        size: bytes.
        sha256: lower-case hex of the package's bytes.
        replaces: versions higher than its own from which a node may go down to it.
        notes: a short text for people; may be empty.
    """

    version: str
    commit: str
    suite: str
    file: str
    size: int
    sha256: str
    channels: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    notes: str = ""


class VerifiedReleases(msgspec.Struct, frozen=True, kw_only=True):
    """What counts, now.

    Attributes:
        releases: highest version first.
        trusted: role to metadata; to be kept and passed as `known` the next time.
        versions: role to version of its metadata.
        expires_ms: when the first of the four expires (Unix milliseconds): from then on nothing counts.
    """

    releases: tuple[Release, ...]
    trusted: dict[str, bytes]
    versions: dict[str, int]
    expires_ms: int

    def find(self, version: str, suite: str) -> Release:
        """Raises `release_unknown` when there is no such release."""
        for release in self.releases:
            if (release.version, release.suite) == (version, suite):
                return release
        raise error("release_unknown", f"no release {version} for {suite} is signed")

    def newest(self, channel: str, suite: str) -> Release:
        """Raises `release_unknown` when the channel offers nothing for `suite`."""
        for release in self.releases:
            if release.suite == suite and channel in release.channels:
                return release
        raise error("release_unknown", f"channel {channel} offers no release for {suite}")


def version_key(version: str) -> tuple[object, ...]:
    """Orders versions as dpkg does.

    Raises:
        HostlerError: `invalid_request` for what is not `X.Y.Z` or `X.Y.Z~suffix`.
    """
    found = _VERSION.fullmatch(version) if len(version) <= _LONGEST_VERSION else None
    if found is None:
        raise error("invalid_request", f"{version[:_LONGEST_VERSION]!r} is no version such as 1.2.3 or 1.2.3~rc1")
    *numbers, suffix = found.groups()
    # none comes last; in a suffix a name and a number alternate, and a dot sorts behind letters
    parts = re.findall("([a-z.]*)([0-9]*)", suffix or "")
    ordered = tuple((name.replace(".", "{"), int(number or 0)) for name, number in parts)
    return (*map(int, numbers), suffix is None, ordered)


def may_install(release: Release, running_version: str) -> None:
    """Whether a node that runs `running_version` may go to `release`: up, the same again (repair), or down where
    the release itself names the version that runs (U3).

    Raises:
        HostlerError: `downgrade_denied`; `invalid_request` for a running version that is none.
    """
    if version_key(release.version) >= version_key(running_version):
        return
    if running_version not in release.replaces:
        raise error(
            "downgrade_denied", f"release {release.version} is not signed as a replacement of {running_version}"
        )


def check_release(release: Release) -> Release:
    """`release`, if our own tools could have written it.

    Raises:
        HostlerError: `release_untrusted`, naming the field.
    """
    own = _key_or_refuse(release, release.version)
    right = {
        "commit": _COMMIT.fullmatch(release.commit) is not None,
        "suite": release.suite in SUITES,
        "file": _FILE.fullmatch(release.file) is not None,
        "size": release.size > 0,
        "channels": bool(release.channels) and set(release.channels) <= set(Channel),
        "replaces": all(_key_or_refuse(release, version) > own for version in release.replaces),
        "notes": len(release.notes) <= MAX_NOTES and all(c.isprintable() or c == "\n" for c in release.notes),
    }
    wrong = [name for name, good in right.items() if not good]
    if wrong:
        raise error("release_untrusted", f"release {release.version} has a {wrong[0]} that cannot be")
    return release


def _key_or_refuse(release: Release, version: str) -> tuple[object, ...]:
    if _VERSION.fullmatch(version) is None or len(version) > _LONGEST_VERSION:
        raise error("release_untrusted", f"release {release.file[:200]!r} names a version that is none")
    return version_key(version)


class _Document(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    format: int
    root: str
    timestamp: str
    snapshot: str
    targets: str


_FORMAT = 1


def pack_metadata(directory: Path) -> bytes:
    """The newest metadata of the repository in `directory`, as one document of at most `MAX_DOCUMENT_BYTES`.

    Raises:
        HostlerError: `release_untrusted` for a repository that is incomplete or too large.
    """
    from hostler.pki.release_files import newest

    return encode_metadata(newest(directory))


def encode_metadata(metadata: Mapping[str, bytes]) -> bytes:
    """The same for metadata in memory, by role."""
    texts = {role: metadata[role].decode("utf-8", "replace") for role in ROLES}
    document = msgspec.json.encode(_Document(format=_FORMAT, **texts)) + b"\n"
    if len(document) > MAX_DOCUMENT_BYTES:
        said = f"the metadata of all releases takes {len(document)} bytes, more than {MAX_DOCUMENT_BYTES}"
        raise error("release_untrusted", said, hint="withdraw old releases: 'hostler releases withdraw'")
    return document


def parse_metadata(document: bytes) -> dict[str, bytes]:
    """Role to metadata, nothing of it verified yet.

    Raises:
        HostlerError: `release_untrusted` for anything that `pack_metadata` would not write.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise error("release_untrusted", f"the metadata takes more than {MAX_DOCUMENT_BYTES} bytes")
    parsed = decode_json(document, _Document, code="release_untrusted", what="metadata of releases")
    if parsed.format != _FORMAT:
        raise error("release_untrusted", f"the metadata has format {parsed.format}, which is not known here")
    return {role: getattr(parsed, role).encode() for role in ROLES}


def verify_releases(
    metadata: Mapping[str, bytes], keyset: Keyset, known: Mapping[str, bytes], now_ms: int
) -> VerifiedReleases:
    """The releases that `metadata` offers, if enough update keys of `keyset` vouch for all of it. No I/O.

    Args:
        metadata: by role, from `parse_metadata`.
        keyset: the one in force; the caller has verified it and knows that it has not expired.
        known: `trusted` of the last verification; empty for the first.

    Raises:
        HostlerError: `release_untrusted` for another signer, too few signatures, a mix of two states, or content
            that our own tools would not write; `release_rollback` for less than `known`; `release_stale` for
            metadata that has expired (freeze).
    """
    from hostler.pki.release_trust import verify

    return verify(metadata, keyset, known, now_ms)
