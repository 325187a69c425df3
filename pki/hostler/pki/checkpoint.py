"""Checkpoints: one signed line over the heads of all receipt chains, each naming the one before it.

A checkpoint is signed with the dispatch key; a witness answers with a countersignature of its own kind, so that
neither can pass for the other. The digest of a checkpoint is that of its payload, whoever signs it.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.envelope import CHECKPOINT_TYPE, COUNTERSIGNATURE_TYPE
from hostler.base.errors import HostlerError
from hostler.base.strict import convert, decode_canonical
from hostler.pki import dsse
from hostler.pki.keys import PublicKey, Signer
from hostler.pki.keyset import KeyRole, Keyset, key_of
from hostler.pki.merkle import Tree

T = TypeVar("T")


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a node's chain reaches: how many receipts, and the digest of the last one. A leaf of the tree."""

    node_id: str
    length: int
    digest: str

    def leaf(self) -> bytes:
        return canonical_json({"node_id": self.node_id, "length": self.length, "digest": self.digest})


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    index: from 0, without a gap.
    previous: digest of the checkpoint before it, "" for the first.
    root: hex root of the Merkle tree over all heads, sorted by node id.
    nodes, receipts: number of heads, and the sum of their lengths.
    """

    index: int
    previous: str
    root: str
    nodes: int
    receipts: int
    at_ms: int
    control_epoch: int
    trust_domain: str
    cluster_id: str

    def payload(self) -> bytes:
        return canonical_json(msgspec.to_builtins(self))

    @property
    def digest(self) -> str:
        return sha256_hex(self.payload())


class CheckpointRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint as it is handed out: signed, with the heads that moved since the one before it.

    Attributes:
        receipts: node id to the receipts by which its head moved; left out where nobody asked for them.
    """

    envelope: msgspec.Raw
    heads: tuple[Head, ...]
    receipts: dict[str, tuple[msgspec.Raw, ...]] = {}
    countersignatures: tuple[msgspec.Raw, ...] = ()


class CheckpointPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Checkpoints, oldest first, and the keysets by which they are signed; also the file a witness reads.

    Attributes:
        keysets: DSSE JSON, oldest first; the last one is in force.
        next_cursor: "" on the last page.
    """

    items: tuple[CheckpointRecord, ...]
    keysets: tuple[msgspec.Raw, ...]
    next_cursor: str = ""


class Countersignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A witness's word: this checkpoint extends every one that it has seen. `checkpoint` is a digest."""

    checkpoint: str
    index: int
    trust_domain: str
    cluster_id: str
    at_ms: int


def tree_of(heads: Iterable[Head]) -> tuple[Tree, dict[str, int]]:
    """The tree over `heads`, and the place of each node's leaf in it."""
    ordered = sorted(heads, key=lambda head: head.node_id)
    return Tree([head.leaf() for head in ordered]), {head.node_id: n for n, head in enumerate(ordered)}


def sign_checkpoint(checkpoint: Checkpoint, signer: Signer) -> bytes:
    return dsse.to_json(dsse.sign(checkpoint.payload(), CHECKPOINT_TYPE, [signer]))


def open_checkpoint(dsse_json: bytes, keys: Sequence[PublicKey]) -> Checkpoint:
    """Raises `malformed_envelope`, `untrusted_key`, `bad_signature`."""
    payload = dsse.verify(dsse.from_json(dsse_json), CHECKPOINT_TYPE, keys)
    return _read(payload, Checkpoint, "checkpoint")


def countersign(checkpoint: Checkpoint, signer: Signer, now_ms: int) -> bytes:
    """DSSE JSON. Only `witness.follow` says when a witness may."""
    word = Countersignature(
        checkpoint=checkpoint.digest,
        index=checkpoint.index,
        trust_domain=checkpoint.trust_domain,
        cluster_id=checkpoint.cluster_id,
        at_ms=now_ms,
    )
    return dsse.to_json(dsse.sign(canonical_json(msgspec.to_builtins(word)), COUNTERSIGNATURE_TYPE, [signer]))


def open_countersignature(dsse_json: bytes, key: PublicKey) -> Countersignature:
    """Raises `malformed_envelope`, `untrusted_key`, `bad_signature`."""
    payload = dsse.verify(dsse.from_json(dsse_json), COUNTERSIGNATURE_TYPE, [key])
    return _read(payload, Countersignature, "countersignature")


def role_keys(keyset: Keyset, role: KeyRole) -> tuple[PublicKey, ...]:
    named = keyset.roles.get(role)
    return tuple(key_of(keyset, keyid) for keyid in dict.fromkeys(named.keyids)) if named else ()


def witness_keys(keyset: Keyset) -> tuple[PublicKey, ...]:
    """Keys whose countersignature counts: a key of the control plane's own is no second party."""
    own = {key.key_id for role in (KeyRole.DISPATCH, KeyRole.CA) for key in role_keys(keyset, role)}
    return tuple(key for key in role_keys(keyset, KeyRole.WITNESS) if key.key_id not in own)


def witnesses_of(checkpoint: Checkpoint, countersignatures: Iterable[bytes], keyset: Keyset) -> set[str]:
    """Ids of the witness keys that have countersigned this very checkpoint; what does not fit counts for nothing."""
    found: set[str] = set()
    for document in countersignatures:
        found |= {key.key_id for key in witness_keys(keyset) if _is_word_on(document, key, checkpoint)}
    return found


def is_witnessed(witnesses: set[str], keyset: Keyset) -> bool:
    role = keyset.roles.get(KeyRole.WITNESS)
    return role is not None and len(witnesses) >= role.threshold


def _is_word_on(document: bytes, key: PublicKey, checkpoint: Checkpoint) -> bool:
    try:
        word = open_countersignature(document, key)
    except HostlerError:
        return False
    about = (word.checkpoint, word.index, word.trust_domain, word.cluster_id)
    return about == (checkpoint.digest, checkpoint.index, checkpoint.trust_domain, checkpoint.cluster_id)


def _read(payload: bytes, type_: type[T], what: str) -> T:
    value = decode_canonical(payload, code="malformed_envelope", what=what)
    return convert(value, type_, code="malformed_envelope", what=what)
