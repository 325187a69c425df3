"""From the keyset a verifier has to the newest, each signed by the roots of the one before."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.pki import ceremony, dsse, rotation
from hostler.pki.bundle import build_bundle, verify_bundle
from hostler.pki.keys import FileSigner, new_ed25519
from hostler.pki.keyset import KeyRole, RoleKeys, encode_key, parse_keyset
from hostler.pki.keyset_history import accepted_keysets
from support.keys import DOMAIN, NOW, Keys
from support.ledger import Ledger


def successor(current: bytes, signers: list[FileSigner], role: KeyRole, key: FileSigner) -> bytes:
    """The next keyset, in which `key` alone holds `role`."""
    keyset = parse_keyset(dsse.from_json(current).payload)
    roles = keyset.roles | {role.value: RoleKeys(1, (key.public.key_id,))}
    keys = keyset.keys | {key.public.key_id: encode_key(key.public)}
    fresh = rotation.successor(keyset, NOW)
    return ceremony.sign_keyset(msgspec.structs.replace(fresh, keys=keys, roles=roles), signers)


@pytest.fixture
def row() -> tuple[Keys, list[bytes]]:
    """Three keysets: the second has another root, the third, signed by that one alone, another dispatch key."""
    keys, root, dispatch = Keys(), new_ed25519(), new_ed25519()
    first = keys.keyset()
    second = successor(first, [keys.root, root], KeyRole.ROOT, root)
    return keys, [first, second, successor(second, [root], KeyRole.DISPATCH, dispatch)]


def test_a_row_of_keysets_leads_to_the_newest(row: tuple[Keys, list[bytes]]) -> None:
    keys, documents = row
    assert [each.version for each in accepted_keysets(keys.state(), documents)] == [1, 2, 3]


def test_a_keyset_that_is_left_out_breaks_the_row(row: tuple[Keys, list[bytes]]) -> None:
    keys, (_, _, third) = row
    with pytest.raises(HostlerError) as caught:
        accepted_keysets(keys.state(), [third])
    assert caught.value.code == "untrusted_key"


def test_keysets_older_than_the_verifier_s_own_are_passed_over(row: tuple[Keys, list[bytes]]) -> None:
    """Although the root that signed them is none any more."""
    keys, documents = row
    (*_, newest) = accepted_keysets(keys.state(), documents)
    root = newest.roles[KeyRole.ROOT.value].keyids[0]
    state = msgspec.structs.replace(keys.state(), keyset=documents[2], root_keys=(newest.keys[root],))
    assert accepted_keysets(state, documents) == [newest]


def test_a_checkpoint_outlives_the_dispatch_key_that_signed_it(row: tuple[Keys, list[bytes]]) -> None:
    keys, (first, second, third) = row
    ledger = Ledger(keys=keys)
    ledger.checkpoint()
    checkpoints = [ledger._proved(0, {})]
    good = build_bundle(DOMAIN, third, {}, checkpoints, [first, second])
    assert verify_bundle(good, keys.state()).ok
    alone = msgspec.structs.replace(keys.state(), keyset=second)
    assert verify_bundle(build_bundle(DOMAIN, third, {}, checkpoints), alone).ok
