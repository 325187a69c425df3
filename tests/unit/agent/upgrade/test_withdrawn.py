"""PG-06, U3: a release that was withdrawn after it was staged is not activated; what stood its trial is a refuge."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.upgrade import order, records, slots
from hostler.agent.upgrade.order import Who, activation, rollback
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import Book
from hostler.base.errors import HostlerError, error
from support.keys import NOW, YEAR_MS
from support.releases import House
from support.slots import installed_in, make_slot, offer, places_in, release

WHO = Who("uid", "tsk", "boot", NOW)
NAME = "1.1.0-c0ffee00"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Version 1.0.0 runs, and 1.1.0 lies beside it."""
    monkeypatch.setattr(order, "__version__", "1.0.0")
    made = places_in(tmp_path)
    make_slot(made, NAME, "1.1.0")
    slots.note_release(made, NAME, release("1.1.0"))
    return made


@pytest.fixture
def house() -> House:
    return House()


def refused(places: Places, house: House, who: Who = WHO, **more: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        activation(installed_in(places, PACKAGED, house), "1.1.0", who, 90, repair=False)
    assert not places.trial.exists()
    return caught.value.code


def test_PG_06_what_is_signed_still_is_activated_without_a_network(places: Places, house: House) -> None:
    offer(places, house, release("1.1.0"), release("1.2.0"))
    assert activation(installed_in(places, PACKAGED, house), "1.1.0", WHO, 90, repair=False) is not None


def test_PG_06_a_release_that_was_withdrawn_is_refused(places: Places, house: House) -> None:
    offer(places, house, release("1.1.0"))
    offer(places, house, release("1.2.0"))
    assert refused(places, house) == "release_withdrawn"


def test_PG_06_a_release_that_was_replaced_under_its_version_is_refused(places: Places, house: House) -> None:
    offer(places, house, release("1.1.0", sha256="b" * 64))
    assert refused(places, house) == "release_withdrawn"


def test_PG_06_a_slot_of_which_nobody_knows_what_was_signed_is_refused(places: Places, house: House) -> None:
    offer(places, house, release("1.1.0"))
    (places.slots / f".{NAME}.release.json").write_bytes(b"")
    assert refused(places, house) == "release_withdrawn"


def test_U3_what_is_known_of_releases_has_an_end(places: Places, house: House) -> None:
    assert refused(places, house) == "release_stale", "nothing is known"
    offer(places, house, release("1.1.0"))
    assert refused(places, house, WHO._replace(now_ms=NOW + YEAR_MS)) == "release_stale"
    places.releases.write_bytes(b"\0" * 50)
    assert refused(places, house) == "release_stale"


def test_PK_09_other_keys_or_an_expired_keyset_vouch_for_nothing(places: Places, house: House) -> None:
    offer(places, house, release("1.1.0"))
    assert refused(places, House()) == "release_untrusted"
    installed = installed_in(places, PACKAGED, house)

    def expired(now_ms: int) -> None:
        raise error("keyset_stale", "it has expired")

    installed.trust().check_fresh = expired  # type: ignore[method-assign]
    with pytest.raises(HostlerError) as caught:
        activation(installed, "1.1.0", WHO, 90, repair=False)
    assert caught.value.code == "keyset_stale"


def test_a_release_that_runs_and_was_withdrawn_may_be_started_anew(places: Places, house: House) -> None:
    """Nodes that run it go on: nothing else is to be had there."""
    offer(places, house, release("1.2.0"))
    slots.switch(places, NAME)
    assert activation(installed_in(places, NAME, house), "1.1.0", WHO, 90, repair=True) is not None


def test_LC_16_back_to_what_stood_its_trial_a_node_goes_whatever_is_signed(
    places: Places, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "__version__", "1.2.0")
    make_slot(places, "1.2.0-c0ffee00", "1.2.0")
    offer(places, house, release("1.2.0"))
    installed = installed_in(places, "1.2.0-c0ffee00", house)
    records.write(places.book, Book(good=(NAME,), previous=NAME))
    assert rollback(installed, "", WHO._replace(now_ms=NOW + YEAR_MS), 90, "slow").slot == NAME
    trial = activation(installed, "1.2.0", WHO, 90, repair=True)
    assert trial is not None
    assert trial.from_slot == NAME, "and by itself too"
    records.write(places.book, Book())
    slots.note_release(places, NAME, msgspec.structs.replace(release("1.1.0"), replaces=("1.2.0",)))
    with pytest.raises(HostlerError) as caught:
        rollback(installed, "1.1.0", WHO, 90, "slow")
    assert caught.value.code == "release_withdrawn", "it has stood none here"
