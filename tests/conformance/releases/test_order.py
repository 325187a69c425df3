"""PG-06, PK-09, T8: cases of time: expiry, rollback and the way back from fast-forward, rotations."""

from collections.abc import Mapping

import pytest

from hostler.pki.keys import new_ed25519
from hostler.pki.releases import verify_releases
from support.keys import NOW, YEAR_MS
from support.refusals import refused
from support.releases import DAY_MS, House, put, update_keyset

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
