"""PG-06, PK-09, T8: the case list of tuf-conformance held against the verifier of releases.

It is python-tuf's own machine, rooted in our keyset. Names are theirs; a *target* is a package. What a client downloads
on its own account has no counterpart: the metadata of all roles is pushed at once.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from securesystemslib.signer import SSlibKey

from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.releases import Release, verify_releases
from support.keys import NOW, YEAR_MS
from support.refusals import code_of, refused
from support.releases import DAY_MS, House, release, sign, update_keyset
from support.tuf_cases import ALL

NO_COUNTERPART = {
    "test_artifact_cache": "packages are kept by digest; there is no cache to go stale",
    "test_basic_refresh_requests": "nothing is requested by name: the metadata is pushed as one document",
    "test_client_downloads_expected_file_in_sub_dir": "a package has a name, no path: test_names_of_packages",
    "test_delegation_not_in_snapshot": "delegations are refused: test_delegations_are_refused",
    "test_faketime": "the verifier takes the time as an argument",
    "test_graph_traversal": "delegations are refused: test_delegations_are_refused",
    "test_implicit_refresh": "nothing is downloaded on demand",
    "test_static_repository": "tests/unit/cli/test_releases.py gives a repository to python-tuf's own client",
    "test_targetfile_search": "delegations are refused: test_delegations_are_refused",
    "test_targets_role_removal": "delegations are refused: test_delegations_are_refused",
    "test_unusual_role_name": "delegations are refused: test_delegations_are_refused",
    "test_url_and_metadata_version_mismatch": "no version in an address",
    "test_snapshot_404": "all four roles come in one document: test_timestamp_404",
    "test_targets_404": "all four roles come in one document: test_timestamp_404",
}


def put(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def bend(signed: dict[str, Any]) -> None:
        *way, last = name.split("/")
        for step in way:
            signed = signed[step]
        signed[last] = value

    return bend


def in_custom(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def bend(signed: dict[str, Any]) -> None:
        (target,) = signed["targets"].values()
        target["custom"].update(fields)

    return bend


# -- basics --------------------------------------------------------------------------------------


def test_basic_refresh_trusted_data() -> None:
    house = House()
    first = house.take(house.publish())
    assert first.releases == (release(),)
    assert first.versions == {"root": 1, "timestamp": 1, "snapshot": 1, "targets": 1}
    again = house.publish()
    assert house.take(again).trusted == again, "what was accepted is what is kept"
    assert house.take(again).versions["timestamp"] == 2, "the same again is no rollback"


test_metadata_bytes_match = test_basic_refresh_trusted_data


def test_client_downloads_expected_file() -> None:
    house = House(releases=(release("1.0.0"), release("1.10.0"), release("1.2.0", suite="trixie", file="t.deb")))
    found = house.take(house.publish())
    assert [each.version for each in found.releases] == ["1.10.0", "1.2.0", "1.0.0"]
    assert found.find("1.2.0", "trixie").file == "t.deb"
    assert found.newest("stable", "bookworm").version == "1.10.0"
    assert refused(found.find, "1.2.0", "bookworm") == "release_unknown"
    assert refused(found.newest, "candidate", "bookworm") == "release_unknown"


def test_invalid_initial_root() -> None:
    house = House()
    good = house.publish()
    for broken in (b"", b"{}", b"not json", b"\xff\xfe", good["root"][:-20], b"[" * 100_000, good["targets"]):
        assert refused(house.take, good | {"root": broken}) == "release_untrusted"


def test_unsigned_initial_root() -> None:
    house = House(by={"root": []})
    assert refused(house.take, house.publish()) == "release_untrusted"


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp"])
def test_unsigned_metadata(role: str) -> None:
    house = House(by={role: []})
    assert refused(house.take, house.publish()) == "release_untrusted"


def test_incorrect_metadata_type() -> None:
    house = House()
    good = house.publish()
    for role in good:
        for other in good.keys() - {role}:
            assert refused(house.take, good | {role: good[other]}) == "release_untrusted"


@pytest.mark.parametrize("role", ["root", "targets", "snapshot", "timestamp"])
def test_custom_fields(role: str) -> None:
    """TUF tolerates unknown fields; we refuse them: a signed field that nobody checks is a door (T5)."""
    house = House()
    assert refused(house.take, house.publish(**{role: put("extra", "x")})) == "release_untrusted"


@pytest.mark.parametrize(
    "fields",
    [
        {"extra": 1},
        {"file": "x.deb"},
        {"size": 1},
        {"sha256": "0" * 64},
        {"version": "1.0"},
        {"version": "1.0.0-1"},
        {"version": 1},
        {"replaces": ["0.9.0"]},
        {"replaces": ["1.0.0"]},
        {"replaces": ["latest"]},
        {"channels": []},
        {"channels": ["nightly"]},
        {"suite": "sid"},
        {"commit": "HEAD"},
        {"notes": "\x1b[2J"},
        {"notes": "x" * 1001},
        {"notes": None},
    ],
)
def test_custom_fields_of_a_package(fields: dict[str, Any]) -> None:
    house = House()
    assert refused(house.take, house.publish(targets=in_custom(**fields))) == "release_untrusted"


@pytest.mark.parametrize("name", ["../x.deb", "a/b.deb", "x.deb\n", "X.deb", ".x.deb", "x", "", "x" * 300 + ".deb"])
def test_names_of_packages(name: str) -> None:
    """Ours: a package has a plain name, whatever directory somebody joins it to."""

    def bend(signed: dict[str, Any]) -> None:
        signed["targets"] = {name: next(iter(signed["targets"].values()))}

    house = House()
    assert refused(house.take, house.publish(targets=bend)) == "release_untrusted"


def test_metadata_that_nobody_reads() -> None:
    """Ours: a name in the snapshot could never be taken back, for whoever has seen it."""
    house = House()
    assert refused(house.take, house.publish(snapshot=put("meta/other.json", {"version": 1}))) == "release_untrusted"


def test_delegations_are_refused() -> None:
    """Ours: nothing here follows one, so a package that one vouches for is vouched for by nobody."""
    house = House()
    nobody = {"keys": {}, "roles": []}
    assert refused(house.take, house.publish(targets=put("delegations", nobody))) == "release_untrusted"


def test_two_packages_of_one_version() -> None:
    """Ours: which of them a node gets would be chance."""
    house = House(releases=(release(), release(file="other.deb")))
    assert refused(house.take, house.publish()) == "release_untrusted"


def test_more_releases_than_anybody_has() -> None:
    """Ours: bounded, as everything that comes over the wire."""
    house = House(releases=tuple(release(f"1.0.{n}") for n in range(501)))
    assert refused(house.take, house.publish()) == "release_untrusted"


# -- a role that is not there, or another one ------------------------------------------------------


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "targets"])
def test_timestamp_404(role: str) -> None:
    house = House()
    good = house.publish()
    left = {name: data for name, data in good.items() if name != role}
    assert refused(house.take, left) == "release_untrusted"
    assert refused(house.take, good | {"mirrors": b"{}"}) == "release_untrusted"


def test_snapshot_hash_mismatch() -> None:
    house = House()
    assert refused(house.take, house.publish(timestamp=put("meta/snapshot.json/hashes/sha256", "0" * 64))) == (
        "release_untrusted"
    )


def test_targets_hash_mismatch() -> None:
    house = House()
    assert refused(house.take, house.publish(snapshot=put("meta/targets.json/hashes/sha256", "0" * 64))) == (
        "release_untrusted"
    )


@pytest.mark.parametrize("role", ["snapshot", "targets"])
def test_repository_substitutes_target_file(role: str) -> None:
    """Mix and match: a good role of another state."""
    house = House()
    old = house.publish()
    house.releases = (release("2.0.0"),)
    new = house.publish()
    assert refused(house.take, new | {role: old[role]}) == "release_untrusted"
    assert refused(house.take, old | {role: new[role]}) == "release_untrusted"


@pytest.mark.parametrize("role", ["snapshot", "targets"])
def test_mix_and_match_without_digests(role: str) -> None:
    """Ours: metadata above that names no digests still names versions."""

    def bare(signed: dict[str, Any]) -> None:
        for each in signed["meta"].values():
            each.pop("hashes")
            each.pop("length")

    house = House(bends={"snapshot": bare, "timestamp": bare})
    old, new = house.publish(), house.publish()
    assert refused(house.take, new | {role: old[role]}) == "release_untrusted"


def test_multiple_changes_to_target() -> None:
    house = House()
    for number in range(1, 5):
        changed = release(notes=f"change {number}")
        house.releases = (changed,)
        assert house.take(house.publish()).releases == (changed,)


def test_timestamp_content_changes() -> None:
    """The same version again is the same content, or nothing."""
    house = House()
    house.take(house.publish())
    house.number = dict.fromkeys(house.number, 0) | {"root": 1}
    house.releases = (release(notes="other"),)
    assert refused(house.take, house.publish()) == "release_untrusted"


def test_timestamp_of_the_same_version_that_lasts_longer() -> None:
    """Ours: everything below it is the same, and yet it is another timestamp."""
    house = House()
    good = house.publish()
    house.take(good)
    longer = msgspec.json.decode(good["timestamp"])["signed"] | {"expires": "2040-01-01T00:00:00Z"}
    assert refused(house.take, good | {"timestamp": sign(longer, [house.fresh])}) == "release_untrusted"


def test_root_content_changes() -> None:
    """Ours: two roots of one version are one too many."""
    house = House()
    house.take(house.publish())
    house.fresh = new_ed25519()
    assert refused(house.take, house.publish()) == "release_untrusted"


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


# -- expiry ----------------------------------------------------------------------------------------

PAST = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "targets"])
def test_root_expired(role: str) -> None:
    """Freeze: whoever hides the newer state can do so until it expires, no longer."""
    house = House()
    assert refused(house.take, house.publish(**{role: put("expires", PAST)})) == "release_stale"
    good = house.publish()
    assert house.take(good, NOW + 29 * DAY_MS).releases
    assert refused(house.take, good, NOW + 31 * DAY_MS) == "release_stale"


test_timestamp_expired = test_snapshot_expired = test_targets_expired = test_root_expired


def test_expiry_is_that_of_the_first_to_end() -> None:
    """Ours: what is said to expire then does."""
    house = House()
    found = house.take(house.publish(days=7))
    assert found.expires_ms == NOW // 1000 * 1000 + 7 * DAY_MS
    assert refused(house.take, dict(found.trusted), found.expires_ms) == "release_stale"


def test_expired_local_root() -> None:
    """What was kept has expired; a fresh state follows it all the same."""
    house = House()
    house.take(house.publish())
    later = NOW + 2 * YEAR_MS
    assert refused(house.take, dict(house.known), later) == "release_stale"
    house.number["root"] = 2
    assert house.take(house.publish(later), later).versions["root"] == 2


def test_expired_local_timestamp() -> None:
    """A state that has expired in use is replaced by a fresh one, and never by an older one."""
    house = House()
    old = House(house.update, house.fresh)
    house.number["timestamp"] = 4
    house.take(house.publish())
    later = NOW + 40 * DAY_MS
    old.number["timestamp"] = 3
    assert refused(house.take, house_root(old.publish(later), house.known), later) == "release_rollback"
    assert house.take(house_root(house.publish(later), house.known), later).versions["timestamp"] == 6


def house_root(metadata: dict[str, bytes], known: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same root as before: it does not change with the rest."""
    return metadata | {"root": known["root"]}


# -- rollback and the way back from fast-forward ---------------------------------------------------


def test_new_timestamp_version_rollback() -> None:
    house = House()
    old, new = house.publish(), house.publish()
    house.take(new)
    assert refused(house.take, old) == "release_rollback"


def test_snapshot_rollback() -> None:
    """A newer timestamp that names an older snapshot."""
    house = House()
    house.publish()
    house.take(house.publish())
    house.number["snapshot"] = 0
    assert refused(house.take, house.publish()) == "release_rollback"


def test_targets_rollback() -> None:
    """A newer timestamp and snapshot that name older targets: the fresh key alone cannot go back."""
    house = House()
    house.publish()
    house.take(house.publish())
    house.number["targets"] = 0
    assert refused(house.take, house.publish()) == "release_rollback"


def test_root_rollback() -> None:
    """Ours: an older root, that names a key long gone, does not come back."""
    house = House()
    old = house.publish()
    house.number["root"] = 2
    house.take(house.publish())
    assert refused(house.take, house.publish() | {"root": old["root"]}) == "release_rollback"


def fast_forwarded(**numbers: int) -> House:
    house = House()
    house.number |= numbers
    house.take(house.publish())
    house.number = {"root": 2, "targets": 1, "snapshot": 1, "timestamp": 1}
    return house


def test_new_timestamp_fast_forward_recovery() -> None:
    """Only a new root leads back: it replaces the fresh key."""
    house = fast_forwarded(timestamp=2**50, snapshot=2**50)
    assert refused(house.take, house.publish()) == "release_rollback"
    house.fresh = new_ed25519()
    assert house.take(house.publish()).versions["timestamp"] == 3


test_new_snapshot_fast_forward_recovery = test_new_timestamp_fast_forward_recovery


def test_targets_fast_forward_recovery() -> None:
    """And from a root and targets sky-high, by the keyset: the update keys are replaced, and the fresh key."""
    house = fast_forwarded(root=2**50, targets=2**50)
    assert refused(house.take, house.publish()) == "release_rollback"
    house.update, house.fresh = [new_ed25519()], new_ed25519()
    assert refused(house.take, house.publish()) == "release_untrusted", "the keyset has not said so yet"
    house.keyset = update_keyset(house.update, version=2)
    assert house.take(house.publish()).versions["root"] == 2


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "targets"])
def test_no_version_without_a_successor(role: str) -> None:
    """Ours: a number beyond which nothing could follow is refused from anybody."""
    house = House()
    house.number[role] = 2**53 + 1
    assert refused(house.take, house.publish()) == "release_untrusted"


# -- rotations -------------------------------------------------------------------------------------


def test_root_rotation() -> None:
    """PK-08: old and new overlap; then the new keys alone; then the old ones are gone, and nothing of theirs counts."""
    house, old, new = House(), new_ed25519(), new_ed25519()
    house.update = [old]
    house.keyset = update_keyset([old])
    first = house.publish()
    house.take(first)
    house.keyset = update_keyset([old, new], version=2)
    assert house.take(house.publish()).versions["root"] == 1, "the root before the overlap still counts"
    house.update, house.number["root"], house.by = [new], 2, {"root": [old, new]}
    assert house.take(house.publish()).versions["root"] == 2, "signed by both, naming the new one only"
    assert refused(house.take, house.publish() | {"root": first["root"]}) == "release_rollback"
    house.keyset, house.by = update_keyset([new], version=3), {}
    assert house.take(house.publish()).versions["root"] == 2
    house.update, house.number["root"] = [old], 3
    assert refused(house.take, house.publish()) == "release_untrusted"


def test_a_node_that_slept_through_a_rotation() -> None:
    """Ours: no chain of roots is followed, so nothing between is needed."""
    house = House()
    house.take(house.publish())
    house.update = [new_ed25519()]
    house.keyset, house.number["root"] = update_keyset(house.update, version=4), 7
    assert house.take(house.publish()).versions["root"] == 7


def test_non_root_rotations() -> None:
    """A new fresh key takes over; the old one signs nothing any more."""
    house = House()
    house.take(house.publish())
    before, house.fresh, house.number["root"] = house.fresh, new_ed25519(), 2
    house.by = {"timestamp": [before]}
    assert refused(house.take, house.publish()) == "release_untrusted"
    house.by = {}
    assert house.take(house.publish()).versions["root"] == 2


def test_cached_role_is_verified_against_current_delegator() -> None:
    """What was kept is verified again under the root in force: a mark by a key that is gone is none."""
    house = House()
    house.number["timestamp"] = 50
    house.take(house.publish())
    house.fresh, house.number["root"], house.number["timestamp"] = new_ed25519(), 2, 1
    assert house.take(house.publish()).versions["timestamp"] == 2


def test_what_was_kept_is_no_longer_readable() -> None:
    """Ours: a lost mark is no trust: the metadata stands on its own signatures."""
    house = House()
    good = house.publish()
    for known in ({"root": b"x"}, {"timestamp": b"{}"}, {"root": good["root"], "snapshot": b"\xff"}):
        assert verify_releases(good, house.keyset, known, NOW).releases


def test_bytes_bent_at_every_place() -> None:
    """Ours: no single changed byte is taken for another content, and none is our own bug."""
    house = House()
    good = house.publish()
    for role, data in good.items():
        for place in range(0, len(data), 7):
            bent = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            code = code_of(verify_releases, good | {role: bent}, house.keyset, {}, NOW)
            assert code in ("", "release_untrusted"), (role, place, code)


def whole(house: House, role: str, data: bytes) -> dict[str, bytes]:
    """The metadata around a role's bytes, so that nothing but the role itself could be refused."""
    bent = msgspec.json.decode(data)["signed"]

    def bend(signed: dict[str, Any]) -> None:
        signed.clear()
        signed.update(bent)

    return house.publish(**{role: bend})


def test_wrong_shapes() -> None:
    """Ours: signed by the right keys, and not what our own tools would write."""
    house = House()
    for role in ("root", "targets", "snapshot", "timestamp"):
        good = msgspec.json.decode(house.publish()[role])["signed"]
        for name in good:
            for value in (None, 7, "x", [], {}, -1, {"x": {}}):
                signers = house.update if role in ("root", "targets") else [house.fresh]
                broken = sign(good | {name: value}, signers)
                code = code_of(verify_releases, whole(house, role, broken), house.keyset, {}, NOW)
                harmless = (name, value) in (("targets", {}), ("version", 7))
                assert code == "release_untrusted" or (harmless and not code), (role, name, value)


def test_every_case_of_theirs_is_here_or_has_its_reason() -> None:
    here = {name for name in globals() if name.startswith("test_")}
    assert NO_COUNTERPART.keys() <= ALL
    assert not (NO_COUNTERPART.keys() & here)
    assert ALL - NO_COUNTERPART.keys() <= here


def test_a_release_is_immutable() -> None:
    with pytest.raises(AttributeError):
        release().version = "2.0.0"  # type: ignore[misc]
    assert isinstance(release(), Release)
