"""The trust machine: rollback, freeze, foreign roots, foreign roles, thresholds."""

from typing import Any

import msgspec
import pytest

from hostler.base.digest import canonical_json
from hostler.base.envelope import KEYSET_TYPE, TASK_TYPE
from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key, keyset_payload, parse_keyset
from hostler.pki.rotation import successor
from hostler.pki.trust import TrustState, TrustStore
from support.refusals import refused

NOW, YEAR = 1_000_000, 365 * 86_400_000
ROOTS = [new_ed25519(), new_ed25519(), new_ed25519()]
DISPATCH, CATALOG = new_ed25519(), new_ed25519()


def keyset(version: int = 1, **changes: Any) -> Keyset:
    signers = {KeyRole.ROOT: ROOTS, KeyRole.DISPATCH: [DISPATCH], KeyRole.CATALOG: [CATALOG]}
    base = Keyset(
        version=version,
        trust_domain="unit.test",
        issued_ms=NOW,
        expires_ms=NOW + YEAR,
        keys={s.public.key_id: encode_key(s.public) for group in signers.values() for s in group},
        roles={
            str(role): RoleKeys(2 if role == KeyRole.ROOT else 1, tuple(s.public.key_id for s in group))
            for role, group in signers.items()
        },
        ca_certificates=(),
    )
    return msgspec.structs.replace(base, **changes)


def state(signed: bytes, version: int = 1) -> TrustState:
    return TrustState(
        trust_domain="unit.test",
        root_keys=tuple(encode_key(root.public) for root in ROOTS),
        root_threshold=2,
        keyset=signed,
        keyset_version=version,
    )


def store() -> TrustStore:
    return TrustStore(state(sign_keyset(keyset(), ROOTS[:2])), NOW)


def test_a_role_s_key_verifies_and_another_role_s_does_not() -> None:
    trust = store()
    good = dsse.sign(b"task", TASK_TYPE, [DISPATCH])
    assert trust.verify(good, TASK_TYPE, KeyRole.DISPATCH, NOW) == b"task"
    assert refused(trust.verify, good, TASK_TYPE, KeyRole.CATALOG, NOW) == "untrusted_key"


def test_T6_a_catalog_key_cannot_dispatch() -> None:
    forged = dsse.sign(b"task", TASK_TYPE, [CATALOG])
    assert refused(store().verify, forged, TASK_TYPE, KeyRole.DISPATCH, NOW) == "untrusted_key"


def test_an_expired_keyset_verifies_nothing() -> None:
    good = dsse.sign(b"task", TASK_TYPE, [DISPATCH])
    assert refused(store().verify, good, TASK_TYPE, KeyRole.DISPATCH, NOW + YEAR) == "keyset_stale"


def test_T7_a_key_has_one_form_and_so_one_name() -> None:
    """The same point of P-256, compressed, would be a second key, and a threshold of two met by one."""
    from cryptography.hazmat.primitives import serialization

    from hostler.pki.keys import PublicKey, new_p256

    key = new_p256()
    numbers = key.private_key.public_key()
    point = numbers.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    head = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    assert refused(PublicKey, head + point) == "untrusted_key"
    assert serialization.load_der_public_key(head + point) == numbers, "it is the same key"


def test_a_keyset_with_one_of_two_root_signatures_is_refused() -> None:
    assert refused(store().update_keyset, sign_keyset(keyset(2), ROOTS[:1]), NOW) == "bad_signature"


def test_a_keyset_by_strangers_is_refused() -> None:
    stranger = [new_ed25519(), new_ed25519()]
    assert refused(store().update_keyset, sign_keyset(keyset(2), stranger), NOW) == "untrusted_key"


def test_an_older_or_equal_version_is_a_rollback() -> None:
    trust = store()
    assert trust.update_keyset(sign_keyset(keyset(5), ROOTS[:2]), NOW)
    for version in (1, 4, 5):
        other = keyset(version, issued_ms=NOW + 1)
        assert refused(trust.update_keyset, sign_keyset(other, ROOTS[:2]), NOW) == "keyset_rollback"
    assert trust.keyset.version == 5


def test_a_saved_state_is_not_rolled_back_by_swapping_its_file() -> None:
    old = sign_keyset(keyset(1), ROOTS[:2])
    assert refused(TrustStore, state(old, version=3), NOW) == "keyset_rollback"


def test_an_expired_successor_is_refused_and_the_old_one_stays() -> None:
    trust = store()
    stale = sign_keyset(keyset(2, expires_ms=NOW - 1), ROOTS[:2])
    assert refused(trust.update_keyset, stale, NOW) == "keyset_stale"
    assert trust.keyset.version == 1


def test_new_roots_need_the_old_ones_and_their_own_signatures() -> None:
    fresh = [new_ed25519(), new_ed25519()]
    keys = keyset().keys | {s.public.key_id: encode_key(s.public) for s in fresh}
    roles = keyset().roles | {"root": RoleKeys(2, tuple(s.public.key_id for s in fresh))}
    rotated = keyset(2, keys=keys, roles=roles)
    trust = store()
    assert refused(trust.update_keyset, sign_keyset(rotated, ROOTS[:2]), NOW) == "untrusted_key"
    assert refused(trust.update_keyset, sign_keyset(rotated, fresh), NOW) == "untrusted_key"
    assert trust.update_keyset(sign_keyset(rotated, [*ROOTS[:2], *fresh]), NOW)
    assert refused(trust.update_keyset, sign_keyset(keyset(3), ROOTS[:2]), NOW) == "untrusted_key"
    TrustStore(trust.state, NOW)  # the new pins are what is saved


def test_P1_the_epoch_of_a_keyset_never_falls() -> None:
    trust = store()
    assert trust.update_keyset(sign_keyset(keyset(2, control_epoch=3), ROOTS[:2]), NOW)
    assert trust.control_epoch == 3
    assert refused(trust.update_keyset, sign_keyset(keyset(3, control_epoch=2), ROOTS[:2]), NOW) == "keyset_rollback"


@pytest.mark.parametrize("changes", [{"version": 2**53 + 1}, {"control_epoch": 2**63}, {"control_epoch": 0}])
def test_T8_a_number_without_a_successor_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(HostlerError) as caught:
        sign_keyset(msgspec.structs.replace(keyset(2), **changes), ROOTS[:2])
    assert caught.value.code == "keyset_untrusted"


def test_T8_the_catalog_mark_falls_only_when_every_catalog_key_is_replaced() -> None:
    trust, fresh = store(), new_ed25519()
    trust.note_catalog(2**52)
    trust.note_catalog(7)
    assert trust.state.catalog_version == 2**52, "a mark only rises"
    both = keyset().keys | {fresh.public.key_id: encode_key(fresh.public)}
    overlap = keyset().roles | {"catalog": RoleKeys(1, (CATALOG.public.key_id, fresh.public.key_id))}
    assert trust.update_keyset(sign_keyset(keyset(2, keys=both, roles=overlap), ROOTS[:2]), NOW)
    assert trust.state.catalog_version == 2**52, "an overlap keeps it"
    other = new_ed25519()
    only = keyset().roles | {"catalog": RoleKeys(1, (other.public.key_id,))}
    keys = keyset().keys | {other.public.key_id: encode_key(other.public)}
    assert trust.update_keyset(sign_keyset(keyset(3, keys=keys, roles=only), ROOTS[:2]), NOW)
    assert trust.state.catalog_version == 0


def test_another_trust_domain_is_refused() -> None:
    foreign = sign_keyset(keyset(2, trust_domain="else.where"), ROOTS[:2])
    assert refused(store().update_keyset, foreign, NOW) == "keyset_untrusted"


def test_the_next_keyset_is_accepted_by_those_who_have_the_present_one() -> None:
    trust = store()
    assert trust.update_keyset(sign_keyset(successor(trust.keyset, NOW + 5), ROOTS[:2]), NOW + 5)
    assert trust.keyset.version == 2


def sign_anything(document: Any) -> bytes:
    return dsse.to_json(dsse.sign(canonical_json(document), KEYSET_TYPE, ROOTS[:2]))


def edited(**changes: Any) -> Any:
    return msgspec.to_builtins(keyset(2)) | changes


@pytest.mark.parametrize(
    "document",
    [
        edited(unknown=1),
        edited(roles=edited()["roles"] | {"root": {"threshold": 0, "keyids": [ROOTS[0].public.key_id]}}),
        edited(roles=edited()["roles"] | {"root": {"threshold": 4, "keyids": [r.public.key_id for r in ROOTS]}}),
        edited(roles=edited()["roles"] | {"superuser": {"threshold": 1, "keyids": [ROOTS[0].public.key_id]}}),
        edited(roles=edited()["roles"] | {"catalog": {"threshold": 1, "keyids": ["00"]}}),
        edited(keys=edited()["keys"] | {"0" * 64: encode_key(CATALOG.public)}),
        edited(version="2"),
    ],
    ids=[
        "unknown field",
        "threshold 0",
        "threshold out of reach",
        "unknown role",
        "absent key",
        "T7 renamed key",
        "text",
    ],
)
def test_a_signed_keyset_that_contradicts_itself_is_refused(document: Any) -> None:
    assert refused(store().update_keyset, sign_anything(document), NOW) == "keyset_untrusted"


def test_T5_a_keyset_in_another_spelling_is_refused() -> None:
    spaced = keyset_payload(keyset(2)).replace(b",", b", ", 1)
    twice = keyset_payload(keyset(2)).replace(b'{"ca_', b'{"version":9,"ca_', 1)
    for payload in (spaced, twice):
        with pytest.raises(HostlerError, match="canonical"):
            parse_keyset(payload)
