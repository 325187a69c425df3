"""Which release metadata counts, now: python-tuf's verifier, rooted in our keyset (after its `TrustedMetadataSet`).

The rules of the machine:
- A TUF root counts when it lets only update keys of the keyset in force, and no fewer of them than that asks for,
  sign roots and targets, and is signed by its own rules. No root is pinned and none is followed from another: rotating
  the keys is the keyset's business.
- A key stands under the name that is its own digest. So no key counts twice.
- Versions only rise. What was kept is a mark as long as the keyset in force would still accept its root, and its
  own role's keys are still named: when the keys are replaced, the marks start again (fast-forward, T8).
- What the root does not foresee is refused: delegations, fields nobody knows, a hash other than SHA-256.
- All four roles are fresh, and each is the one that the next above it names.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.pki.keys import PublicKey
from hostler.pki.keyset import BIGGEST, KeyRole, Keyset, key_of
from hostler.pki.releases import (
    MAX_DOCUMENT_BYTES,
    MAX_RELEASES,
    ROLES,
    Release,
    VerifiedReleases,
    check_release,
    version_key,
)

if TYPE_CHECKING:
    from tuf.api.metadata import Key, Root, Signed, TargetFile, Targets
    from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet


def verify(
    metadata: Mapping[str, bytes], keyset: Keyset, known: Mapping[str, bytes], now_ms: int, *, lapsed: bool = False
) -> VerifiedReleases:
    """See `hostler.pki.releases.verify_releases`. `lapsed`: let expiry pass, for whoever signs it anew."""
    from tuf.api.exceptions import RepositoryError

    if set(metadata) != set(ROLES):
        raise error("release_untrusted", f"the metadata is not that of the roles {', '.join(ROLES)}")
    if sum(map(len, metadata.values())) > MAX_DOCUMENT_BYTES:
        raise error("release_untrusted", f"the metadata takes more than {MAX_DOCUMENT_BYTES} bytes")
    try:
        root = eligible_root(metadata["root"], keyset)
        known = _marks(root, known, keyset)
        trusted = _machine(metadata["root"], 0 if lapsed else now_ms)
        _timestamp(trusted, metadata["timestamp"], known)
        _snapshot(trusted, metadata["snapshot"], known)
        _targets(trusted, metadata["targets"])
    except RepositoryError as err:
        raise _refusal(err) from err
    signed: dict[str, Signed] = {role: trusted[role] for role in ROLES}
    for role, each in signed.items():
        if each.version > BIGGEST:
            raise error("release_untrusted", f"nothing could follow version {each.version} of the {role} metadata")
        if each.unrecognized_fields or any(part.unrecognized_fields for part in _parts(each)):
            raise error("release_untrusted", f"the {role} metadata holds a field that nobody checks")
    if set(trusted.snapshot.meta) != {"targets.json"}:
        raise error("release_untrusted", "the snapshot names metadata that nobody reads")
    return VerifiedReleases(
        releases=_releases(trusted.targets),
        trusted={role: metadata[role] for role in ROLES},
        versions={role: each.version for role, each in signed.items()},
        expires_ms=min(int(each.expires.timestamp() * 1000) for each in signed.values()),
    )


def _parts(signed: Any) -> list[Any]:
    """What a root, timestamp or snapshot is made of; targets are looked at one by one."""
    if signed.type == "root":
        return [*signed.keys.values(), *signed.roles.values()]
    if signed.type == "timestamp":
        return [signed.snapshot_meta]
    return list(signed.meta.values()) if signed.type == "snapshot" else []


def eligible_root(data: bytes, keyset: Keyset) -> "Root":
    """The TUF root in `data`, if only update keys of `keyset`, and no fewer of them, may sign root and targets.

    That they did sign it, by its own rules, is for the machine to find; so is its expiry.

    Raises:
        HostlerError: `release_untrusted`.
        tuf.api.exceptions.RepositoryError: for bytes that are no metadata.
    """
    from tuf.api.metadata import Metadata, Root

    parsed = Metadata[Root].from_bytes(data)
    root = parsed.signed
    if not isinstance(root, Root) or root.consistent_snapshot is not True:
        raise error("release_untrusted", "the root metadata is none of ours")
    for keyid, key in root.keys.items():
        if public_key(key).key_id != keyid:
            raise error("release_untrusted", f"key {keyid[:16]} stands under a name that is not its own")
    keys, threshold = update_keys(keyset)
    for role in ("root", "targets"):
        if not set(root.roles[role].keyids) <= keys.keys():
            raise error("release_untrusted", f"role {role} names a key that keyset {keyset.version} does not")
        if root.roles[role].threshold < threshold:
            raise error("release_untrusted", f"role {role} asks for fewer than {threshold} signatures")
    return root


def update_keys(keyset: Keyset) -> tuple[dict[str, PublicKey], int]:
    """By key id, and how many of them must sign. Raises `release_untrusted` when the keyset names none."""
    role = keyset.roles.get(KeyRole.UPDATE)
    if role is None:
        raise error(
            "release_untrusted",
            f"keyset {keyset.version} names no update key",
            hint="hostler pki grant update DIRECTORY --public-key KEY",
        )
    return {keyid: key_of(keyset, keyid) for keyid in role.keyids}, role.threshold


def public_key(key: "Key") -> PublicKey:
    """Our form of a TUF key. Raises `release_untrusted` for anything but Ed25519 and P-256."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    text: Any = key.keyval.get("public")
    try:
        if (key.keytype, key.scheme) == ("ed25519", "ed25519"):
            loaded: Any = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
        elif (key.keytype, key.scheme) == ("ecdsa", "ecdsa-sha2-nistp256"):
            loaded = serialization.load_pem_public_key(text.encode())
        else:
            raise error("release_untrusted", f"a key of type {key.keytype[:40]!r} signs nothing here")
        spki = loaded.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return PublicKey(spki)
    except (ValueError, TypeError, AttributeError) as err:
        raise error("release_untrusted", f"key {key.keyid[:16]} of the root cannot be read") from err
    except HostlerError as err:
        raise error("release_untrusted", err.message) from err


def _marks(root: "Root", known: Mapping[str, bytes], keyset: Keyset) -> Mapping[str, bytes]:
    """What is left of `known` under this keyset and root."""
    from tuf.api.exceptions import RepositoryError

    if not known:
        return {}
    try:
        before = eligible_root(known.get("root", b""), keyset)
    except (HostlerError, RepositoryError):
        return known  # by keys that count no more; each of the others stands or falls with its own keys
    if root.version < before.version:
        raise error("release_rollback", f"root {root.version} is older than {before.version}")
    if root.version == before.version and root != before:
        raise error("release_untrusted", f"there are two roots of version {root.version}")
    return known


def _machine(root: bytes, now_ms: int) -> "TrustedMetadataSet":
    from datetime import UTC, datetime

    from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
    from tuf.ngclient.config import EnvelopeType

    trusted = TrustedMetadataSet(root, EnvelopeType.METADATA)
    trusted.reference_time = datetime.fromtimestamp(now_ms / 1000, UTC)
    if trusted.root.is_expired(trusted.reference_time):
        raise error("release_stale", "the root of the releases has expired")
    return trusted


def _timestamp(trusted: "TrustedMetadataSet", data: bytes, known: Mapping[str, bytes]) -> None:
    from tuf.api.exceptions import EqualVersionNumberError

    _load_mark(trusted.update_timestamp, known.get("timestamp"))
    try:
        trusted.update_timestamp(data)
    except EqualVersionNumberError as err:
        if data != known.get("timestamp"):
            raise error(
                "release_untrusted", f"there are two timestamps of version {trusted.timestamp.version}"
            ) from err


def _snapshot(trusted: "TrustedMetadataSet", data: bytes, known: Mapping[str, bytes]) -> None:
    from tuf.api.exceptions import BadVersionNumberError

    _load_mark(lambda mark: trusted.update_snapshot(mark, trusted=True), known.get("snapshot"))
    before = trusted.get("snapshot")
    try:
        trusted.update_snapshot(data)
    except BadVersionNumberError as err:
        if trusted.get("snapshot") is not before:  # it was taken, and is not the one that the timestamp names
            raise error("release_untrusted", "the snapshot is not the one that the timestamp names") from err
        raise


def _targets(trusted: "TrustedMetadataSet", data: bytes) -> None:
    from tuf.api.exceptions import BadVersionNumberError

    try:
        trusted.update_targets(data)
    except BadVersionNumberError as err:
        raise error("release_untrusted", "the targets are not those that the snapshot names") from err


def _load_mark(load: Any, mark: bytes | None) -> None:
    """What was seen before holds against going back, also when it has expired; not when its keys are gone."""
    from tuf.api.exceptions import RepositoryError

    if mark is None:
        return
    try:
        load(mark)
    except RepositoryError:
        return


def _refusal(err: Exception) -> HostlerError:
    from tuf.api.exceptions import BadVersionNumberError, ExpiredMetadataError

    if isinstance(err, ExpiredMetadataError):
        return error("release_stale", "metadata of the releases has expired")
    if isinstance(err, BadVersionNumberError):
        return error("release_rollback", "metadata of the releases is older than what was seen before")
    said = " ".join("".join(c if c.isprintable() else "?" for c in str(err)).split())[:200]
    return error("release_untrusted", f"metadata of the releases does not verify: {said}")


def _releases(targets: "Targets") -> tuple[Release, ...]:
    if targets.delegations is not None:
        raise error("release_untrusted", "the releases delegate, and nothing here follows")
    if len(targets.targets) > MAX_RELEASES:
        raise error("release_untrusted", f"there are more than {MAX_RELEASES} releases")
    releases = [_release(path, target) for path, target in targets.targets.items()]
    if len({(release.version, release.suite) for release in releases}) < len(releases):
        raise error("release_untrusted", "two releases have one version and suite")
    return tuple(sorted(releases, key=lambda release: (version_key(release.version), release.suite), reverse=True))


def _release(path: str, target: "TargetFile") -> Release:
    custom = target.unrecognized_fields.get("custom")
    if (
        set(target.unrecognized_fields) != {"custom"}
        or not isinstance(custom, dict)
        or set(target.hashes) != {"sha256"}
    ):
        raise error("release_untrusted", f"release {path[:200]!r} is described by other fields than ours")
    if custom.keys() & {"file", "size", "sha256"}:
        raise error("release_untrusted", f"release {path[:200]!r} says twice what it is")
    said = custom | {"file": path, "size": target.length, "sha256": target.hashes["sha256"]}
    try:
        return check_release(msgspec.convert(said, Release))
    except msgspec.ValidationError as err:
        raise error("release_untrusted", f"release {path[:200]!r}: {str(err)[:200]}") from err


def custom_of(release: Release) -> dict[str, Any]:
    """What stands in a target's `custom` field."""
    fields: dict[str, Any] = msgspec.to_builtins(release)
    return {name: value for name, value in fields.items() if name not in ("file", "size", "sha256")}
