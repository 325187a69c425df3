"""The catalog: which documents are approved, by digest, signed by catalog keys and versioned.

A node accepts a manifest only with enough catalog signatures, not older than the one in use and not expired,
and a document only if the manifest names its digest. So a document cannot be mixed in from another version.
A definition that destroys counts only with an approval by enough approvers, which travels among the documents.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.envelope import CATALOG_TYPE
from hostler.base.errors import error
from hostler.base.strict import convert, decode_canonical, decode_json
from hostler.catalog.approval import Approvals, needs_approval
from hostler.catalog.command_profile import CommandProfile, command_profile_from
from hostler.catalog.definition import Definition, definition_from
from hostler.catalog.used_profiles import profiles_of
from hostler.pki import dsse
from hostler.pki.keys import Signer
from hostler.pki.keyset import BIGGEST, KeyRole
from hostler.pki.trust import TrustStore


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Digests (hex SHA-256 of canonical JSON) by `type@version` and by command profile id."""

    version: int
    issued_ms: int
    expires_ms: int
    definitions: dict[str, str]
    commands: dict[str, str]


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """A verified catalog. Only `open_catalog` makes one."""

    manifest: Manifest
    definitions: dict[str, Definition]
    commands: dict[str, CommandProfile]
    manifest_envelope: bytes
    documents: tuple[bytes, ...]

    @property
    def version(self) -> int:
        return self.manifest.version


def make_manifest(
    version: int,
    definitions: Iterable[Definition],
    commands: Iterable[CommandProfile],
    *,
    now_ms: int,
    lifetime_ms: int,
) -> Manifest:
    return Manifest(
        version=version,
        issued_ms=now_ms,
        expires_ms=now_ms + lifetime_ms,
        definitions={definition.ref: definition.digest() for definition in definitions},
        commands={profile.id: profile.digest() for profile in commands},
    )


def sign_manifest(manifest: Manifest, signers: Iterable[Signer]) -> bytes:
    """DSSE JSON."""
    payload = canonical_json(msgspec.to_builtins(manifest))
    return dsse.to_json(dsse.sign(payload, CATALOG_TYPE, signers))


def open_catalog(
    manifest_dsse: bytes,
    documents: Iterable[bytes],
    trust: TrustStore,
    now_ms: int,
    current_version: int = 0,
) -> Catalog:
    """The catalog that `manifest_dsse` and its documents make.

    Args:
        current_version: the highest version seen; the same one may be opened again, a lower one not.

    Raises:
        HostlerError: `untrusted_key`, `bad_signature`, `malformed_envelope`, `keyset_stale`,
            `catalog_rollback`, `catalog_stale`, `catalog_mismatch`, `approval_missing`.
    """
    envelope = dsse.from_json(manifest_dsse)
    payload = trust.verify(envelope, CATALOG_TYPE, KeyRole.CATALOG, now_ms)
    value = decode_canonical(payload, code="catalog_mismatch", what="catalog manifest")
    manifest = convert(value, Manifest, code="catalog_mismatch", what="catalog manifest")
    if not 1 <= manifest.version <= BIGGEST:
        raise error("catalog_mismatch", f"catalog version {manifest.version} is out of range")
    if manifest.version < current_version:
        raise error("catalog_rollback", f"catalog {manifest.version} is older than {current_version}")
    if manifest.expires_ms <= now_ms:
        raise error("catalog_stale", f"catalog {manifest.version} has expired")
    documents = tuple(documents)
    by_digest = {sha256_hex(document): document for document in documents}
    definitions = {
        ref: definition_from(_document(by_digest, digest, ref), ref) for ref, digest in manifest.definitions.items()
    }
    commands = {
        name: command_profile_from(_document(by_digest, digest, name), name)
        for name, digest in manifest.commands.items()
    }
    _check_names(definitions, commands)
    approvals = Approvals(documents)
    approved = [
        approvals.check(definition, commands, trust, now_ms)
        for definition in definitions.values()
        if needs_approval(definition, commands)
    ]
    named = [*manifest.definitions.values(), *manifest.commands.values()]
    return Catalog(
        manifest=manifest,
        definitions=definitions,
        commands=commands,
        manifest_envelope=manifest_dsse,
        documents=(*(by_digest[digest] for digest in dict.fromkeys(named)), *approved),
    )


def _document(by_digest: Mapping[str, bytes], digest: str, name: str) -> Any:
    if digest not in by_digest:
        raise error("catalog_mismatch", f"the document of {name} is absent from the catalog")
    return decode_canonical(by_digest[digest], code="catalog_mismatch", what=name)


def _check_names(definitions: Mapping[str, Definition], commands: Mapping[str, CommandProfile]) -> None:
    for ref, definition in definitions.items():
        if definition.ref != ref:
            raise error("catalog_mismatch", f"the catalog files {definition.ref} under {ref}")
        for step in definition.steps:
            for absent in (name for name in profiles_of(step) if name not in commands):
                raise error("catalog_mismatch", f"{ref} uses command profile {absent}, which is not in the catalog")
    for name, profile in commands.items():
        if profile.id != name:
            raise error("catalog_mismatch", f"the catalog files command profile {profile.id} under {name}")


class BundleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed catalog as one JSON document: what `hostler profiles sign` writes and the API takes."""

    manifest: msgspec.Raw
    documents: tuple[msgspec.Raw, ...]


def write_bundle(manifest_dsse: bytes, documents: Iterable[bytes]) -> bytes:
    return msgspec.json.encode(
        BundleFile(msgspec.Raw(manifest_dsse), tuple(msgspec.Raw(document) for document in documents))
    )


def read_bundle(data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Manifest (DSSE JSON) and documents, each document brought to canonical form.

    Raises:
        HostlerError: `invalid_request`.
    """
    bundle = decode_json(data, BundleFile, what="catalog bundle")
    decoded = (decode_json(bytes(document), object, what="catalog document") for document in bundle.documents)
    documents = tuple(canonical_json(document) for document in decoded)
    return bytes(bundle.manifest), documents
