"""Catalogs on their way to enough signatures: proposed, reviewed, signed by one after the other, published.

A proposal is a catalog bundle whose manifest and approvals are not signed yet, or not by enough keys. Files in,
files out: each signer works where the key is, with no network.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hostler.base.envelope import APPROVAL_TYPE, CATALOG_TYPE, Envelope
from hostler.base.errors import error
from hostler.base.strict import convert, decode_canonical
from hostler.catalog.approval import approval_of, approval_payload, needs_approval, read_approval
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.catalog.manifest import Manifest, read_bundle, write_bundle
from hostler.catalog.resolver import ResolverConfig
from hostler.pki import dsse
from hostler.pki.keys import Signer
from hostler.pki.keyset import KeyRole, Keyset


class Proposal(NamedTuple):
    """A bundle taken apart. `approvals` by the reference of what they approve."""

    manifest: Envelope
    documents: tuple[bytes, ...]
    approvals: dict[str, Envelope]

    @property
    def said(self) -> Manifest:
        """What the manifest says, its signatures unchecked."""
        value = decode_canonical(self.manifest.payload, code="catalog_mismatch", what="catalog manifest")
        return convert(value, Manifest, code="catalog_mismatch", what="catalog manifest")

    def to_bundle(self) -> bytes:
        approvals = (dsse.to_json(envelope) for envelope in self.approvals.values())
        return write_bundle(dsse.to_json(self.manifest), (*self.documents, *approvals))


class Change(NamedTuple):
    """`what` is added, changed or removed; `approval` says that it destroys or runs as root."""

    what: str
    name: str
    approval: bool


class Standing(NamedTuple):
    """Signatures that are still owed: on the manifest, and on each approval."""

    manifest: int
    approvals: dict[str, int]

    @property
    def complete(self) -> bool:
        return self.manifest == 0 and not any(self.approvals.values())


def propose(
    manifest: Manifest,
    definitions: Sequence[Definition],
    commands: Sequence[CommandProfile],
    base: Proposal | None = None,
    resolvers: Iterable[ResolverConfig] = (),
) -> Proposal:
    """An unsigned proposal. Approvals of `base` for what has not changed are taken over with their signatures."""
    by_name = {profile.id: profile for profile in commands}
    kept = {envelope.payload: envelope for envelope in base.approvals.values()} if base else {}
    approvals = {}
    for definition in definitions:
        if needs_approval(definition, by_name):
            payload = approval_payload(approval_of(definition, by_name))
            approvals[definition.ref] = kept.get(payload) or Envelope(payload, APPROVAL_TYPE, ())
    documents = (*(d.canonical() for d in definitions), *(c.canonical() for c in commands))
    documents = (*documents, *(config.canonical() for config in resolvers))
    return Proposal(Envelope(manifest.canonical(), CATALOG_TYPE, ()), documents, approvals)


def read_proposal(data: bytes) -> Proposal:
    """Raises `invalid_request` for what is no bundle, `malformed_envelope` for a broken signature."""
    manifest, documents = read_bundle(data)
    plain, approvals = [], {}
    for document in documents:
        if document.startswith(b'{"payload":'):
            envelope = dsse.from_json(document)
            approvals[read_approval(envelope).ref] = envelope
        else:
            plain.append(document)
    return Proposal(dsse.from_json(manifest), tuple(plain), approvals)


def sign(proposal: Proposal, signers: Iterable[Signer]) -> Proposal:
    """With each signer's signature on the manifest and on every approval. Which of them count, the keyset says."""
    signers = list(signers)
    return Proposal(
        _signed(proposal.manifest, signers),
        proposal.documents,
        {ref: _signed(envelope, signers) for ref, envelope in proposal.approvals.items()},
    )


def merge(one: Proposal, other: Proposal) -> Proposal:
    """The signatures of both copies. Raises `catalog_mismatch` unless they are the same proposal."""
    same = one.manifest.payload == other.manifest.payload and one.documents == other.documents
    if not same or one.approvals.keys() != other.approvals.keys():
        raise error("catalog_mismatch", "the two files are not copies of one proposal")
    approvals = {ref: _union(envelope, other.approvals[ref]) for ref, envelope in one.approvals.items()}
    return Proposal(_union(one.manifest, other.manifest), one.documents, approvals)


def standing(proposal: Proposal, keyset: Keyset) -> Standing:
    """Counts good signatures only."""
    return Standing(
        _owed(proposal.manifest, keyset, KeyRole.CATALOG),
        {ref: _owed(envelope, keyset, KeyRole.DESTRUCTIVE) for ref, envelope in proposal.approvals.items()},
    )


def changes(proposal: Proposal, base: Proposal | None) -> list[Change]:
    """What is different from `base`, definitions first; everything is added where there is none."""
    new, old = proposal.said, base.said if base else None
    found = []
    for after, before in (
        (new.definitions, old.definitions if old else {}),
        (new.commands, old.commands if old else {}),
        (_named(new.resolvers), _named(old.resolvers) if old else {}),
    ):
        for name in sorted(after.keys() | before.keys()):
            if after.get(name) == before.get(name):
                continue
            what = "removed" if name not in after else "changed" if name in before else "added"
            found.append(Change(what, name, name in proposal.approvals))
    return found


def _named(resolvers: dict[str, str]) -> dict[str, str]:
    """Told apart from definitions and command profiles, which may have the same name."""
    return {f"resolver {name}": digest for name, digest in resolvers.items()}


def _signed(envelope: Envelope, signers: list[Signer]) -> Envelope:
    return _union(envelope, dsse.sign(envelope.payload, envelope.payload_type, signers))


def _union(one: Envelope, other: Envelope) -> Envelope:
    """A key's newer signature replaces its older one."""
    both = {signature.keyid: signature for signature in (*one.signatures, *other.signatures)}
    return Envelope(one.payload, one.payload_type, tuple(both.values()))


def _owed(envelope: Envelope, keyset: Keyset, name: KeyRole) -> int:
    from hostler.pki.keyset import key_of

    role = keyset.roles.get(name)
    if role is None:
        return 1
    data = dsse.pae(envelope.payload_type, envelope.payload)
    trusted = {keyid: key_of(keyset, keyid) for keyid in role.keyids}
    good = {s.keyid for s in envelope.signatures if s.keyid in trusted and trusted[s.keyid].verifies(s.sig, data)}
    return max(0, role.threshold - len(good))
