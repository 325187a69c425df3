"""The case list of tuf-conformance (theupdateframework/tuf-conformance), held against the keyset and catalog client.

Our *keyset* is TUF's root; our *catalog manifest*, which is versioned, expires and names every document by digest,
stands for timestamp, snapshot and targets together; a *document* is a target. Names are theirs.
"""

from typing import Any

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.envelope import CATALOG_TYPE, KEYSET_TYPE, Envelope, Signature
from hostler.catalog.definition import Definition
from hostler.catalog.manifest import Catalog, make_manifest, open_catalog, sign_manifest
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.keys import FileSigner, new_ed25519
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key
from hostler.pki.rotation import replace_role, successor
from hostler.pki.trust import TrustState, TrustStore
from support.builders import definition
from support.keys import DOMAIN, NOW
from support.refusals import refused
from support.tuf_cases import ALL

YEAR = 365 * 86_400_000
ROOTS = [new_ed25519() for _ in range(3)]
CATALOGERS = [new_ed25519() for _ in range(2)]
DISPATCH = new_ed25519()

# Cases about what we do not have, each with the reason.
NO_COUNTERPART = {
    "test_artifact_cache": "documents are kept by digest in the journal; there is no cache to go stale",
    "test_basic_metadata_hash_support": "one digest algorithm, SHA-256",
    "test_basic_refresh_requests": "nothing is requested by name: the control plane pushes",
    "test_client_downloads_expected_file_in_sub_dir": "documents have digests, no paths",
    "test_delegation_not_in_snapshot": "no delegations",
    "test_deprecated_keyid_hash_algorithms": "a key id is the key's own SHA-256, nothing else",
    "test_download_with_hash_algorithms": "one digest algorithm, SHA-256",
    "test_download_with_unknown_hash_algorithm": "one digest algorithm, SHA-256",
    "test_faketime": "the verifier takes the time as an argument",
    "test_graph_traversal": "no delegations",
    "test_implicit_refresh": "nothing is downloaded on demand",
    "test_keytype_and_scheme": "a key is its SubjectPublicKeyInfo: Ed25519 or P-256, no scheme beside it",
    "test_static_repository": "no repository of files",
    "test_targetfile_search": "no delegations",
    "test_targets_role_removal": "no delegations",
    "test_unusual_role_name": "roles are a closed list; an unknown one is refused (test_new_role_names)",
    "test_url_and_metadata_version_mismatch": "no version in an address",
    "test_cached_role_is_verified_against_current_delegator": "no delegations; the catalog in force is verified "
    "again under every new keyset: test_non_root_rotations",
}


def role(*signers: FileSigner, threshold: int = 1) -> RoleKeys:
    return RoleKeys(threshold, tuple(signer.public.key_id for signer in signers))


def keyset(version: int = 1, *, catalog: RoleKeys | None = None, **changes: Any) -> Keyset:
    everybody = (*ROOTS, *CATALOGERS, DISPATCH)
    base = Keyset(
        version=version,
        trust_domain=DOMAIN,
        issued_ms=NOW,
        expires_ms=NOW + YEAR,
        keys={signer.public.key_id: encode_key(signer.public) for signer in everybody},
        roles={
            "root": role(*ROOTS, threshold=2),
            "catalog": catalog or role(CATALOGERS[0]),
            "dispatch": role(DISPATCH),
        },
        ca_certificates=(),
    )
    return msgspec.structs.replace(base, **changes)


def state(first: bytes) -> TrustState:
    pins = tuple(encode_key(root.public) for root in ROOTS)
    return TrustState(trust_domain=DOMAIN, root_keys=pins, root_threshold=2, keyset=first)


def client(first: Keyset | None = None) -> TrustStore:
    return TrustStore(state(sign_keyset(first or keyset(), ROOTS[:2])), NOW)


def catalog(
    version: int, *signers: FileSigner, documents: tuple[Definition, ...] = (), now_ms: int = NOW
) -> tuple[bytes, tuple[bytes, ...]]:
    kept = documents or (definition(),)
    manifest = make_manifest(version, kept, (), now_ms=now_ms, lifetime_ms=YEAR)
    return sign_manifest(manifest, signers or (CATALOGERS[0],)), tuple(each.canonical() for each in kept)


def take(trust: TrustStore, update: tuple[bytes, tuple[bytes, ...]], now_ms: int = NOW) -> Catalog:
    """What a node does with a catalog that is pushed to it."""
    opened = open_catalog(*update, trust, now_ms, trust.state.catalog_version)
    trust.note_catalog(opened.version)
    return opened


def resigned(document: Any, kind: str, *signers: FileSigner) -> bytes:
    return dsse.to_json(dsse.sign(canonical_json(document), kind, signers))


# -- basics --------------------------------------------------------------------------------------


def test_basic_refresh_trusted_data() -> None:
    trust = client()
    assert trust.update_keyset(sign_keyset(keyset(2), ROOTS[:2]), NOW)
    assert take(trust, catalog(5)).version == 5
    assert TrustStore(trust.state, NOW).keyset.version == 2, "what was accepted is what is kept"


def test_invalid_initial_root() -> None:
    for broken in (b"", b"{}", b"not json", b"\xff\xfe", sign_keyset(keyset(), ROOTS[:2])[:-20]):
        assert refused(TrustStore, state(broken), NOW) == "malformed_envelope"


def test_unsigned_initial_root() -> None:
    signed = dsse.from_json(sign_keyset(keyset(), ROOTS[:2]))
    unsigned = Envelope(signed.payload, signed.payload_type, ())
    assert refused(TrustStore, state(dsse.to_json(unsigned)), NOW) == "untrusted_key"
    alone = Envelope(signed.payload, signed.payload_type, signed.signatures[:1])
    assert refused(TrustStore, state(dsse.to_json(alone)), NOW) == "bad_signature"


def test_unsigned_metadata() -> None:
    manifest, documents = catalog(1)
    unsigned = Envelope(dsse.from_json(manifest).payload, CATALOG_TYPE, ())
    assert refused(take, client(), (dsse.to_json(unsigned), documents)) == "untrusted_key"


def test_incorrect_metadata_type() -> None:
    """A keyset is no catalog and the reverse, although both are signed JSON."""
    payload = dsse.from_json(catalog(1)[0]).payload
    as_keyset = dsse.to_json(dsse.sign(payload, KEYSET_TYPE, ROOTS[:2]))
    assert refused(client().update_keyset, as_keyset, NOW) == "keyset_untrusted"
    as_catalog = dsse.to_json(dsse.sign(payload, KEYSET_TYPE, CATALOGERS[:1]))
    assert refused(take, client(), (as_catalog, ())) == "malformed_envelope"


def test_custom_fields() -> None:
    """TUF tolerates unknown fields; we refuse them: a signed field that nobody checks is a door (T5)."""
    document = msgspec.to_builtins(keyset(2)) | {"extra": "x"}
    assert refused(client().update_keyset, resigned(document, KEYSET_TYPE, *ROOTS[:2]), NOW) == "keyset_untrusted"


def test_new_role_names() -> None:
    """Ours, in the place of test_unusual_role_name."""
    document = msgspec.to_builtins(keyset(2))
    document["roles"]["../root"] = document["roles"]["dispatch"]
    assert refused(client().update_keyset, resigned(document, KEYSET_TYPE, *ROOTS[:2]), NOW) == "keyset_untrusted"


def test_metadata_bytes_match() -> None:
    """The bytes that were verified are the bytes that are kept."""
    update = catalog(1)
    assert take(client(), update).manifest_envelope == update[0]
    signed = sign_keyset(keyset(2), ROOTS[:2])
    trust = client()
    trust.update_keyset(signed, NOW)
    assert trust.state.keyset == signed


# -- a document that is not there, or another one --------------------------------------------------


def test_client_downloads_expected_file() -> None:
    assert list(take(client(), catalog(1)).definitions) == [definition().ref]


def test_timestamp_404() -> None:
    assert refused(take, client(), (b"", ())) == "malformed_envelope"


def test_snapshot_404() -> None:
    manifest, _ = catalog(1)
    assert refused(take, client(), (manifest, ())) == "catalog_mismatch"


def test_targets_404() -> None:
    manifest, documents = catalog(1, documents=(definition(), definition(type_="demo.other")))
    assert refused(take, client(), (manifest, documents[:1])) == "catalog_mismatch"


def test_snapshot_hash_mismatch() -> None:
    manifest, documents = catalog(1)
    assert refused(take, client(), (manifest, (documents[0] + b" ",))) == "catalog_mismatch"


def test_targets_hash_mismatch() -> None:
    manifest, documents = catalog(1)
    bent = documents[0].replace(b"demo", b"dema")
    assert refused(take, client(), (manifest, (bent,))) == "catalog_mismatch"


def test_repository_substitutes_target_file() -> None:
    """Mix and match: a document of one catalog under the manifest of another."""
    manifest, _ = catalog(2, documents=(definition(description="new"),))
    _, old = catalog(1)
    assert refused(take, client(), (manifest, old)) == "catalog_mismatch"


def test_multiple_changes_to_target() -> None:
    trust = client()
    for version in range(1, 5):
        changed = definition(description=f"change {version}")
        assert take(trust, catalog(version, documents=(changed,))).definitions[changed.ref] == changed


def test_timestamp_content_changes() -> None:
    """The same version again is the same content, or nothing: the newer bytes do not slip in below the mark."""
    trust = client()
    take(trust, catalog(3))
    assert refused(take, trust, catalog(2, documents=(definition(description="other"),))) == "catalog_rollback"


# -- keys ------------------------------------------------------------------------------------------


def test_duplicate_keys() -> None:
    """One key under two names does not count twice (T7)."""
    document = msgspec.to_builtins(keyset(2))
    again = "0" * 64
    document["keys"][again] = document["keys"][CATALOGERS[0].public.key_id]
    document["roles"]["catalog"] = {"threshold": 2, "keyids": [CATALOGERS[0].public.key_id, again]}
    assert refused(client().update_keyset, resigned(document, KEYSET_TYPE, *ROOTS[:2]), NOW) == "keyset_untrusted"
    doubled = msgspec.to_builtins(keyset(2))
    doubled["roles"]["catalog"] = {"threshold": 2, "keyids": [CATALOGERS[0].public.key_id] * 2}
    assert refused(client().update_keyset, resigned(doubled, KEYSET_TYPE, *ROOTS[:2]), NOW) == "keyset_untrusted"


def test_duplicate_sig_keyids() -> None:
    trust = client(keyset(catalog=role(*CATALOGERS, threshold=2)))
    manifest, documents = catalog(1, CATALOGERS[0])
    signed = dsse.from_json(manifest)
    doubled = Envelope(signed.payload, signed.payload_type, signed.signatures * 2)
    assert refused(take, trust, (dsse.to_json(doubled), documents)) == "bad_signature"


def test_snapshot_does_not_meet_threshold() -> None:
    trust = client(keyset(catalog=role(*CATALOGERS, threshold=2)))
    assert refused(take, trust, catalog(1, CATALOGERS[0])) == "bad_signature"
    assert take(trust, catalog(1, *CATALOGERS)).version == 1


def test_snapshot_has_too_few_keys() -> None:
    """A threshold that its own keys cannot reach is refused in the keyset already."""
    document = msgspec.to_builtins(keyset(2))
    document["roles"]["catalog"]["threshold"] = 2
    assert refused(client().update_keyset, resigned(document, KEYSET_TYPE, *ROOTS[:2]), NOW) == "keyset_untrusted"


def test_invalid_sig_in_valid_metadata() -> None:
    """A bad signature beside enough good ones changes nothing."""
    manifest, documents = catalog(1)
    signed = dsse.from_json(manifest)
    stray = (Signature("f" * 64, b"x"), Signature(CATALOGERS[1].public.key_id, bytes(64)))
    both = Envelope(signed.payload, signed.payload_type, (*stray, *signed.signatures))
    assert take(client(), (dsse.to_json(both), documents)).version == 1


# -- expiry ----------------------------------------------------------------------------------------


def test_root_expired() -> None:
    """A client that meets an expired keyset does not take it, and says so."""
    expired = sign_keyset(keyset(2, expires_ms=NOW - 1), ROOTS[:2])
    assert refused(client().update_keyset, expired, NOW) == "keyset_stale"


def test_expired_local_root() -> None:
    """With an expired keyset of its own it verifies nothing, and can still be given a fresh one."""
    trust = client(keyset(expires_ms=NOW + 10))
    assert refused(take, trust, catalog(1), NOW + 10) == "keyset_stale"
    assert trust.update_keyset(sign_keyset(keyset(2), ROOTS[:2]), NOW + 10)
    assert take(trust, catalog(1), NOW + 10).version == 1


def test_timestamp_expired() -> None:
    """Freeze: an old catalog kept alive by whoever hides the new one ends at its own date."""
    trust = client(keyset(expires_ms=NOW + 3 * YEAR))
    assert refused(take, trust, catalog(1), NOW + YEAR) == "catalog_stale"


test_snapshot_expired = test_targets_expired = test_timestamp_expired


def test_expired_local_timestamp() -> None:
    """A catalog that has expired in use is replaced by a fresh one, and never by an older one."""
    trust = client(keyset(expires_ms=NOW + 3 * YEAR))
    take(trust, catalog(5))
    later = NOW + YEAR
    assert refused(take, trust, catalog(4, now_ms=later), later) == "catalog_rollback"
    assert take(trust, catalog(6, now_ms=later), later).version == 6


# -- rollback and the way back from fast-forward ---------------------------------------------------


def test_new_timestamp_version_rollback() -> None:
    trust = client()
    take(trust, catalog(2))
    assert refused(take, trust, catalog(1)) == "catalog_rollback"


def test_snapshot_rollback() -> None:
    """Over a restart as well: the mark is in what is saved."""
    trust = client()
    take(trust, catalog(2))
    assert refused(take, TrustStore(trust.state, NOW), catalog(1)) == "catalog_rollback"


def test_targets_rollback() -> None:
    """Going back to an old content is a new, higher version."""
    trust = client()
    old = definition(description="old")
    take(trust, catalog(1, documents=(old,)))
    take(trust, catalog(2, documents=(definition(description="new"),)))
    assert take(trust, catalog(3, documents=(old,))).definitions[old.ref] == old


def fast_forwarded() -> TrustStore:
    trust = client()
    take(trust, catalog(2**53))
    assert refused(take, trust, catalog(2)) == "catalog_rollback"
    return trust


def test_new_timestamp_fast_forward_recovery() -> None:
    """Only the root leads back: it replaces every catalog key."""
    trust, fresh = fast_forwarded(), new_ed25519()
    recovery = replace_role(successor(trust.keyset, NOW), KeyRole.CATALOG, (fresh.public,))
    assert trust.update_keyset(sign_keyset(recovery, ROOTS[:2]), NOW)
    assert take(trust, catalog(2, fresh)).version == 2


test_targets_fast_forward_recovery = test_new_timestamp_fast_forward_recovery


def test_new_snapshot_fast_forward_recovery() -> None:
    """Adding a key, or a new keyset alone, does not lead back: whoever holds the old key could do it again."""
    trust, fresh = fast_forwarded(), new_ed25519()
    wider = keyset(2, catalog=role(CATALOGERS[0], fresh))
    keys = wider.keys | {fresh.public.key_id: encode_key(fresh.public)}
    assert trust.update_keyset(sign_keyset(msgspec.structs.replace(wider, keys=keys), ROOTS[:2]), NOW)
    assert refused(take, trust, catalog(2, fresh)) == "catalog_rollback"


def test_no_version_without_a_successor() -> None:
    """Ours: a number beyond which nothing could follow is refused from anybody."""
    assert refused(take, client(), catalog(2**63 - 1)) == "catalog_mismatch"


# -- rotations -------------------------------------------------------------------------------------


def rotated(old: Keyset, *fresh: FileSigner, threshold: int = 1) -> Keyset:
    return replace_role(successor(old, NOW), KeyRole.ROOT, tuple(s.public for s in fresh), threshold)


def test_root_rotation() -> None:
    trust, one, two = client(), [new_ed25519(), new_ed25519()], [new_ed25519()]
    second = rotated(trust.keyset, *one, threshold=2)
    third = rotated(second, *two)
    for signers in (one, ROOTS[:2], [*ROOTS[:1], *one], [*ROOTS[:2], one[0]]):
        assert refused(trust.update_keyset, sign_keyset(second, signers), NOW) in ("untrusted_key", "bad_signature")
    skipping = sign_keyset(third, [*one, *two])
    assert refused(trust.update_keyset, skipping, NOW) == "untrusted_key", "a node that slept needs what is between"
    assert trust.update_keyset(sign_keyset(second, [*ROOTS[:2], *one]), NOW)
    assert trust.update_keyset(skipping, NOW)
    assert trust.state.root_threshold == 1
    assert refused(trust.update_keyset, sign_keyset(successor(third, NOW), ROOTS[:2]), NOW) == "untrusted_key"


def test_non_root_rotations() -> None:
    """A new catalog key takes over; the old one signs nothing any more."""
    trust, fresh = client(), new_ed25519()
    take(trust, catalog(1))
    assert trust.update_keyset(
        sign_keyset(replace_role(successor(trust.keyset, NOW), KeyRole.CATALOG, (fresh.public,)), ROOTS[:2]), NOW
    )
    assert refused(take, trust, catalog(2)) == "untrusted_key"
    assert take(trust, catalog(2, fresh)).version == 2


def test_every_case_of_theirs_is_here_or_has_its_reason() -> None:
    here = {name for name in globals() if name.startswith("test_")}
    assert NO_COUNTERPART.keys() <= ALL
    assert not (NO_COUNTERPART.keys() & here)
    assert ALL - NO_COUNTERPART.keys() <= here
