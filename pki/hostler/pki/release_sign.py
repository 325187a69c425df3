"""Metadata of releases, signed: pure steps from one verified state of a repository to the next."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.signer import Signature, SSlibKey
from tuf.api.metadata import Key, Metadata, MetaFile, Role, Root, Signed, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization.json import JSONSerializer

from hostler.base.errors import error
from hostler.pki.keys import PublicKey, Signer
from hostler.pki.keyset import Keyset
from hostler.pki.release_trust import custom_of, public_key, update_keys
from hostler.pki.releases import Release

LONGEST_FRESH_DAYS = 365
_FRESH_ROLES = ("timestamp", "snapshot")


class Keys(NamedTuple):
    """Who signs from now on.

    Attributes:
        update: keys of root and targets.
        threshold: how many of them must sign.
        fresh: keys of timestamp and snapshot, one of which must sign.
    """

    update: tuple[PublicKey, ...]
    threshold: int
    fresh: tuple[PublicKey, ...]


def keys_for(
    keyset: Keyset, *, without: Iterable[str] = (), fresh: Sequence[PublicKey] = (), before: Root | None = None
) -> Keys:
    """The update keys of `keyset`, less those that are to be withdrawn from it.

    Args:
        without: key ids that the repository names no more.
        fresh: keys of their own for timestamp and snapshot; else those of `before` where it has any, else the
            update keys.

    Raises:
        HostlerError: `release_untrusted` when too few keys are left.
    """
    named, threshold = update_keys(keyset)
    gone = set(without)
    left = tuple(key for keyid, key in named.items() if keyid not in gone)
    if len(left) < threshold:
        raise error("release_untrusted", f"{len(left)} update keys would be left, and {threshold} must sign")
    if not fresh and before is not None:
        own = set(before.roles["timestamp"].keyids) - set(before.roles["root"].keyids)
        fresh = [public_key(before.keys[keyid]) for keyid in sorted(own)]
    return Keys(left, threshold, tuple(fresh) or left)


def make_root(keys: Keys, version: int, now_ms: int) -> Root:
    """A root that lets `keys` sign, for a year."""
    update = [key.key_id for key in keys.update]
    roles = {name: Role(update, keys.threshold) for name in ("root", "targets")}
    roles |= {name: Role([key.key_id for key in keys.fresh], 1) for name in _FRESH_ROLES}
    named: dict[str, Key] = {key.key_id: _tuf_key(key) for key in (*keys.update, *keys.fresh)}
    return Root(version, None, a_year_from(now_ms), named, roles, consistent_snapshot=True)


def make_targets(releases: Iterable[Release], version: int, now_ms: int) -> Targets:
    """For a year. Every release, by its file's name."""
    files = {
        release.file: TargetFile(
            release.size, {"sha256": release.sha256}, release.file, unrecognized_fields={"custom": custom_of(release)}
        )
        for release in releases
    }
    return Targets(version, None, a_year_from(now_ms), files)


class Versions(NamedTuple):
    """The last ones used; 0 before the first."""

    root: int = 0
    timestamp: int = 0
    snapshot: int = 0
    targets: int = 0


def sign_all(
    root_data: bytes, targets: bytes | Targets, versions: Versions, signers: Sequence[Signer], days: int, now_ms: int
) -> dict[str, bytes]:
    """Metadata of all roles: `root_data` as it is, `targets` signed unless it is already, snapshot and timestamp
    anew, for `days`.

    Raises:
        HostlerError: `invalid_request`, naming keys, where signatures lack.
    """
    root = root_of(root_data)
    if isinstance(targets, Targets):
        targets = signed_by(targets, root, signers)
    expires = _moment(now_ms) + timedelta(days=days)
    named = {"targets.json": _meta(targets)}
    snapshot = signed_by(Snapshot(versions.snapshot + 1, None, expires, named), root, signers)
    timestamp = signed_by(Timestamp(versions.timestamp + 1, None, expires, _meta(snapshot)), root, signers)
    return {"root": root_data, "timestamp": timestamp, "snapshot": snapshot, "targets": targets}


def root_of(data: bytes) -> Root:
    """Of bytes that were verified before, or that we have just made."""
    signed = Metadata[Root].from_bytes(data).signed
    assert isinstance(signed, Root)
    return signed


def expires_ms(root: bytes, targets: bytes) -> int:
    """When the first of the two does (Unix milliseconds)."""
    both: tuple[Any, ...] = (Metadata[Root].from_bytes(root).signed, Metadata[Targets].from_bytes(targets).signed)
    return min(int(each.expires.timestamp() * 1000) for each in both)


def signed_by(signed: Signed, root: Root, signers: Sequence[Signer], also: Iterable[str] = ()) -> bytes:
    """Metadata with the signatures of all `signers` whom `root` lets sign it, and of the key ids `also`.

    Raises:
        HostlerError: `invalid_request` when those are too few.
    """
    role = root.roles[signed.type]
    document: Metadata[Any] = Metadata(signed)
    data = document.signed_bytes
    may = {*role.keyids, *also}
    for signer in signers:
        keyid = signer.public.key_id
        if keyid in may:
            document.signatures[keyid] = Signature(keyid, signer.sign(data).hex())
    missing = role.threshold - len(document.signatures.keys() & set(role.keyids))
    if missing > 0:
        lacking = ", ".join(keyid[:16] for keyid in role.keyids if keyid not in document.signatures)
        raise error(
            "invalid_request",
            f"the {signed.type} metadata lacks {missing} signature(s), of the keys {lacking}",
            hint="name their key files with --key",
        )
    return document.to_bytes(JSONSerializer(compact=True))


def _meta(data: bytes) -> MetaFile:
    document: Any = msgspec.json.decode(data)
    return MetaFile.from_data(document["signed"]["version"], data, ["sha256"])


def a_year_from(now_ms: int) -> datetime:
    return _moment(now_ms) + timedelta(days=365)


def _moment(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms // 1000, UTC)


def _tuf_key(key: PublicKey) -> SSlibKey:
    loaded: Any = load_der_public_key(key.spki_der)
    return SSlibKey.from_crypto(loaded, keyid=key.key_id)
