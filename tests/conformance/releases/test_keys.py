"""PG-06, PK-09: cases of keys, thresholds, signatures and digests."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from securesystemslib.signer import SSlibKey

from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.releases import verify_releases
from support.keys import NOW
from support.refusals import refused
from support.releases import House, put, release, update_keyset

# -- keys ------------------------------------------------------------------------------------------


def test_root_of_another_keyset() -> None:
    """Arbitrary software: a repository that is whole in itself, and signed by nobody we know."""
    house, stranger = House(), House()
    assert refused(house.take, stranger.publish()) == "release_untrusted"
    both = House(by={"root": [*stranger.update, *house.update]})
    both.update = stranger.update
    assert refused(verify_releases, both.publish(), house.keyset, {}, NOW) == "release_untrusted"


def test_root_names_a_stranger_for_targets() -> None:
    """Ours: signed by enough update keys, and yet it may not hand releases on to a key that the keyset lacks."""
    stranger = new_ed25519()
    for role in ("targets", "root"):
        house = House()

        def bend(signed: dict[str, Any], role: str = role) -> None:
            signed["keys"][stranger.public.key_id] = tuf_key(stranger)
            signed["roles"][role]["keyids"] = [*signed["roles"][role]["keyids"], stranger.public.key_id]

        assert refused(house.take, house.publish(root=bend)) == "release_untrusted"


def tuf_key(signer: FileSigner) -> dict[str, Any]:
    found: dict[str, Any] = SSlibKey.from_crypto(signer.private_key.public_key()).to_dict()
    return found


def test_keyset_without_update_keys() -> None:
    """Ours: a fleet that names nobody installs nothing."""
    house = House()
    roles = {name: role for name, role in house.keyset.roles.items() if name != "update"}
    house.keyset = msgspec.structs.replace(house.keyset, roles=roles)
    assert refused(house.take, house.publish()) == "release_untrusted"


def test_a_key_of_another_role_signs_no_release() -> None:
    """T6: the catalog key is no update key, though the keyset knows it."""
    house, other = House(), new_ed25519()
    house.keyset = update_keyset([other])
    roles = house.keyset.roles | {"update": house.keyset.roles["root"], "catalog": house.keyset.roles["update"]}
    house.keyset = msgspec.structs.replace(house.keyset, roles=roles)
    house.update = [other]
    assert refused(house.take, house.publish()) == "release_untrusted"


def test_duplicate_keys() -> None:
    """T7: one key under two names does not count twice."""
    house = House([new_ed25519(), new_ed25519()], threshold=2)
    one = house.update[0]

    def bend(signed: dict[str, Any]) -> None:
        again = "0" * 64
        signed["keys"][again] = signed["keys"][one.public.key_id]
        for role in ("root", "targets"):
            signed["roles"][role]["keyids"] = [one.public.key_id, again]

    assert refused(house.take, house.publish(root=bend)) == "release_untrusted"
    alone = House([new_ed25519()])

    def twice(signed: dict[str, Any]) -> None:
        again = "0" * 64
        signed["keys"][again] = signed["keys"][alone.fresh.public.key_id]
        signed["roles"]["timestamp"] = {"threshold": 2, "keyids": [alone.fresh.public.key_id, again]}

    metadata = alone.publish(root=twice)
    stamped = msgspec.json.decode(metadata["timestamp"])
    stamped["signatures"].append(stamped["signatures"][0] | {"keyid": "0" * 64})
    metadata["timestamp"] = msgspec.json.encode(stamped)
    assert refused(alone.take, metadata) == "release_untrusted"


def test_deprecated_keyid_hash_algorithms() -> None:
    """A key's name is the digest of the key, and it has no field beside it."""
    house = House()

    def bend(signed: dict[str, Any]) -> None:
        for key in signed["keys"].values():
            key["keyid_hash_algorithms"] = ["sha256"]

    assert refused(house.take, house.publish(root=bend)) == "release_untrusted"


@pytest.mark.parametrize(
    "key",
    [
        {"keytype": "rsa", "scheme": "rsassa-pss-sha256", "keyval": {"public": "x"}},
        {"keytype": "ed25519", "scheme": "ecdsa-sha2-nistp256", "keyval": {"public": "00" * 32}},
        {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": "zz"}},
        {"keytype": "ed25519", "scheme": "ed25519", "keyval": {}},
        {"keytype": "ecdsa", "scheme": "ecdsa-sha2-nistp256", "keyval": {"public": "-----BEGIN"}},
        {"keytype": "sigstore-oidc", "scheme": "Fulcio", "keyval": {"identity": "x", "issuer": "y"}},
    ],
)
def test_keytype_and_scheme(key: dict[str, Any]) -> None:
    house = House()
    assert refused(house.take, house.publish(root=put("keys/" + "f" * 64, key))) == "release_untrusted"


def test_a_key_in_a_token_signs_releases() -> None:
    """Ours, PK-11: a token holds P-256 keys."""
    house = House([new_p256()], fresh=new_p256())
    assert house.take(house.publish()).releases == (release(),)


def test_duplicate_sig_keyids() -> None:
    for role in ("root", "targets"):
        house = House([new_ed25519(), new_ed25519()], threshold=2)
        house.by = {role: house.update[:1] * 2}
        assert refused(house.take, house.publish()) == "release_untrusted"


@pytest.mark.parametrize("role", ["root", "targets"])
def test_snapshot_does_not_meet_threshold(role: str) -> None:
    house = House([new_ed25519() for _ in range(3)], threshold=2)
    house.by = {role: house.update[:1]}
    assert refused(house.take, house.publish()) == "release_untrusted"
    house.by = {role: house.update[1:]}
    assert house.take(house.publish()).releases


@pytest.mark.parametrize("role", ["root", "targets"])
def test_root_asks_for_fewer_than_the_keyset(role: str) -> None:
    """Ours: two people signed a root after which one is enough; the keyset says two."""
    house = House([new_ed25519(), new_ed25519()], threshold=2)
    assert refused(house.take, house.publish(root=put(f"roles/{role}/threshold", 1))) == "release_untrusted"


def test_snapshot_has_too_few_keys() -> None:
    house = House()
    assert refused(house.take, house.publish(root=put("roles/snapshot/threshold", 2))) == "release_untrusted"


def test_invalid_sig_in_valid_metadata() -> None:
    """A bad signature beside enough good ones changes nothing."""
    house = House([new_ed25519(), new_ed25519()])
    for stray in ("00" * 64, "not hex"):
        metadata = house.publish()
        for role in ("root", "timestamp"):
            bent = msgspec.json.decode(metadata[role])
            bent["signatures"].append({"keyid": "f" * 64, "sig": stray})
            if role == "root":
                bent["signatures"][0]["sig"] = stray
            metadata[role] = msgspec.json.encode(bent)
        assert house.take(metadata).releases


# -- digests ---------------------------------------------------------------------------------------


def test_basic_metadata_hash_support() -> None:
    house = House()
    bend = put("meta/snapshot.json/hashes", {"md5": "0" * 32})
    assert refused(house.take, house.publish(timestamp=bend)) == "release_untrusted"


@pytest.mark.parametrize("hashes", [{"sha512": "0" * 128}, {"sha256": "0" * 64, "sha512": "0" * 128}, {"md5": "0"}])
def test_download_with_hash_algorithms(hashes: Mapping[str, str]) -> None:
    """One digest algorithm, SHA-256, and nothing beside it that one reader looks at and another does not."""

    def bend(signed: dict[str, Any]) -> None:
        next(iter(signed["targets"].values()))["hashes"] = hashes

    house = House()
    assert refused(house.take, house.publish(targets=bend)) == "release_untrusted"


test_download_with_unknown_hash_algorithm = test_download_with_hash_algorithms
