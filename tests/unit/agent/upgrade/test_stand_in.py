"""U1, K7, EV-09: what has run for a while in a broken slot's place says so, and leaves what is damaged for good."""

import asyncio
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostler.agent import steady
from hostler.agent.upgrade import records, slots, stand_in
from hostler.agent.upgrade.launch import MOST_LOOSE_STARTS, count, pick
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import Book
from hostler.pki.agent_report import Evidence
from support.slots import installed_in, make_slot, places_in

NOW = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """`two` is to run, `one` ran before."""
    made = places_in(tmp_path)
    make_slot(made, "one", "1.1.0", python=NOW)
    make_slot(made, "two", "1.2.0", python=NOW)
    slots.switch(made, "two")
    records.write(made.book, Book(good=("one", "two"), previous="one"))
    return made


def rot(places: Places, slot: str) -> None:
    (places.home(slot) / "lib/one.py").write_bytes(b"\0" * 9)


def picked(places: Places) -> str:
    return pick(["run"], str(places.base), str(places.packaged))[0]


def test_U1_EV_09_a_damaged_slot_is_left_for_good_and_the_return_is_told(places: Places) -> None:
    rot(places, "two")
    for _ in range(MOST_LOOSE_STARTS):
        count("two", str(places.base))
    assert stand_in.evidence(places, "one") == (
        Evidence(kind="slot", name="two", expected="runs", found="did not start; one runs in its place"),
    )
    for _ in range(2):
        stand_in.settle(places, "one", 77)
        told = records.returned(places)
        assert told is not None
        assert (told.version, told.to_version, told.error_code) == ("1.2.0", "1.1.0", "slot_damaged")
        assert told.reason == "1 of its files are not as they were built, such as lib/one.py"
        assert records.book(places) == Book(good=("one",), bad={"two": told.reason}, previous="")
        assert slots.current(places) == picked(places) == "one"
        assert stand_in.evidence(places, "one") == ()
    assert {one.version: one.state for one in slots.listing(places, "one")}["1.2.0"] == "bad"


def test_U1_a_slot_that_is_whole_is_not_left_and_the_next_start_tries_it_again(places: Places) -> None:
    """Its bytecode goes: nothing vouches for that, and Python makes it anew."""
    for _ in range(MOST_LOOSE_STARTS):
        count("two", str(places.base))
    cache = places.home("two") / "lib/__pycache__"
    cache.mkdir()
    (cache / "one.cpython-311.pyc").write_bytes(b"half")
    assert picked(places) == "one"
    stand_in.settle(places, "one", 77)
    assert (slots.current(places), picked(places)) == ("two", "two")
    assert records.returned(places) is None
    assert not cache.exists()


def test_a_slot_that_ran_for_a_while_has_not_failed(places: Places) -> None:
    for _ in range(MOST_LOOSE_STARTS - 1):
        count("two", str(places.base))
    stand_in.settle(places, "two", 77)
    count("two", str(places.base))
    assert picked(places) == "two"
    stand_in.forget_starts(places)
    assert not places.starts.exists()


def test_LC_13_a_trial_is_none_of_its_business(places: Places) -> None:
    rot(places, "two")
    slots.note_before(places, "one")
    places.trial.write_text("{}")
    count("two", str(places.base))
    stand_in.settle(places, "one", 77)
    stand_in.forget_starts(places)
    assert stand_in.evidence(places, "one") == ()
    assert (slots.current(places), slots.before(places)) == ("two", "one")
    assert places.starts.exists()


def test_U3_a_trial_of_which_only_the_link_is_left_is_over(places: Places) -> None:
    slots.note_before(places, "one")
    assert picked(places) == "one"
    stand_in.settle(places, "one", 77)
    told = records.returned(places)
    assert told is not None
    assert (told.version, told.to_version, told.reason) == ("1.2.0", "1.1.0", stand_in.RECORD_LOST)
    assert (slots.current(places), slots.before(places), picked(places)) == ("one", "", "one")
    assert records.book(places).bad == {}, "it may be tried again"


class Agent:
    """As much of one as the loop wants."""

    def __init__(self, places: Places, running: str, uid: int) -> None:
        self.installed = installed_in(places, running)
        self.outside, self.clock = SimpleNamespace(uid=uid), SimpleNamespace(now_ms=lambda: 77)
        self.looks = 0
        self.report = SimpleNamespace(look_again=self._look)

    def _look(self) -> None:
        self.looks += 1


@pytest.mark.parametrize(
    ("uid", "harm", "previous", "now"),
    [(990, True, "one", "two"), (-1, False, "one", "two"), (-1, True, "one", "one"), (-1, True, "bad", PACKAGED)],
)
def test_U1_a_slot_whose_network_process_never_comes_is_left_where_it_is_damaged(
    places: Places, monkeypatch: pytest.MonkeyPatch, uid: int, harm: bool, previous: str, now: str
) -> None:
    """The agent itself may have loaded nothing of what is broken."""
    monkeypatch.setattr(steady, "STEADY_S", 0.0)
    sent: list[Any] = []
    monkeypatch.setattr(steady.os, "kill", lambda pid, number: sent.append(number))
    if harm:
        rot(places, "two")
    if previous == "bad":
        rot(places, "one")
    agent: Any = Agent(places, "two", uid)
    asyncio.run(steady.when_steady(agent))
    assert slots.current(places) == now
    assert sent == ([signal.SIGTERM] if now != "two" else [])
    assert agent.looks == 1


def test_K7_a_slot_that_was_not_staged_to_its_end_is_not_gone_to(places: Places) -> None:
    slots.forget_ready(places, "two")
    assert slots.damage(places, "two") == ("ready.json",)
    assert slots.whole(places, "1.2.0") is None
    slots.note_ready(places, "two")
    assert slots.damage(places, "two") == ()
