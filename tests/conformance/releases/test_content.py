"""PG-06: cases of what the metadata says: packages, fields, roles that are not there or are others."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hostler.pki.keys import new_ed25519
from hostler.pki.releases import Release, verify_releases
from support.keys import NOW
from support.refusals import code_of, refused
from support.releases import House, put, release, sign


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


def test_a_release_is_immutable() -> None:
    with pytest.raises(AttributeError):
        release().version = "2.0.0"  # type: ignore[misc]
    assert isinstance(release(), Release)
