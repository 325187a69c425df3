"""U1, K7: a slot that lies there and rots, or whose trial nobody can read, does not keep a node from running."""

import json
import sys
from pathlib import Path

import pytest

from hostler.agent.upgrade import launch, records, slots
from hostler.agent.upgrade.launch import MOST_LOOSE_STARTS, MOST_STARTS, WATCHER, count, pick
from hostler.agent.upgrade.places import PACKAGED, Places
from support.slots import make_slot, places_in

NOW = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """`two` runs, `one` ran before; both have stood their trials."""
    made = places_in(tmp_path)
    for name in ("one", "two"):
        make_slot(made, name, "1.0.0", python=NOW)
    slots.switch(made, "two")
    records.write(made.book, records.Book(good=("one", "two"), previous="one"))
    return made


def picked(places: Places, verb: str = "run") -> str:
    return pick([verb], str(places.base), str(places.packaged))[0]


def start(places: Places, times: int = 1) -> list[str]:
    """What systemd would start, as often as that."""
    ran = []
    for _ in range(times):
        ran.append(picked(places))
        count(ran[-1], str(places.base))
    return ran


def test_U1_a_slot_that_fails_its_starts_gives_way_to_the_one_before_and_that_to_the_package(places: Places) -> None:
    many = MOST_LOOSE_STARTS
    assert start(places, 3 * many) == ["two"] * many + ["one"] * many + [PACKAGED] * many
    assert slots.current(places) == "two", "the launcher changes nothing"


def test_U1_where_nothing_starts_each_has_its_turn_again(places: Places) -> None:
    """A configuration that nobody can read, say: once it is mended, the right version is not far away."""
    many = MOST_LOOSE_STARTS
    start(places, 3 * many)
    assert start(places, 3 * many) == ["two"] * many + ["one"] * many + [PACKAGED] * many


def test_U1_the_session_is_of_the_slot_that_the_agent_fell_back_to(places: Places) -> None:
    start(places, MOST_LOOSE_STARTS + 1)
    assert picked(places, "session") == picked(places) == "one"


def test_U1_the_session_picks_so_without_the_boots_name_too(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its unit has ProcSubset=pid."""
    start(places, MOST_LOOSE_STARTS + 1)
    monkeypatch.setattr(launch, "_boot_id", lambda: "")
    assert picked(places, "session") == "one"


def test_U1_a_machine_that_starts_anew_tries_the_slot_again(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    start(places, MOST_LOOSE_STARTS)
    assert picked(places) == "one"
    monkeypatch.setattr(launch, "_boot_id", lambda: "another")
    assert picked(places) == "two"


def test_starts_outside_of_a_trial_say_nothing_of_one(places: Places) -> None:
    start(places, MOST_LOOSE_STARTS)
    places.trial.write_text(json.dumps({"key": "uid", "slot": "two", "from_slot": "one"}))
    assert picked(places) == "two"
    start(places, MOST_STARTS)
    assert picked(places) == "one"
    places.trial.unlink()
    assert picked(places) == "two"


def test_the_installed_package_alone_is_not_counted(places: Places) -> None:
    slots.switch(places, PACKAGED)
    assert start(places, 20) == [PACKAGED] * 20
    assert not places.starts.exists()


@pytest.mark.parametrize("harm", ["no mark", "another manifest", "half a manifest"])
def test_K7_a_slot_that_was_not_staged_to_its_end_is_not_started(places: Places, harm: str) -> None:
    manifest = places.home("two") / "manifest.json"
    if harm == "no mark":
        slots.forget_ready(places, "two")
    else:
        manifest.write_bytes(manifest.read_bytes() + b" " if harm == "another manifest" else b"{")
    assert picked(places) == "one"


def test_U1_a_watcher_that_does_not_start_gives_way_to_that_of_the_package(places: Places) -> None:
    """Its slot is that of the version before, which may have rotted too; a trial is judged all the same."""
    places.trial.write_text(json.dumps({"key": "uid", "slot": "two", "from_slot": "one"}))
    for _ in range(MOST_STARTS):
        assert picked(places, "trial") == "one"
        count(WATCHER + "one", str(places.base))
    assert picked(places, "trial") == PACKAGED
    assert picked(places) == "two", "what is on trial has not failed"


@pytest.mark.parametrize("text", [None, "", "{", "\0" * 40])
def test_U3_a_trial_that_nobody_can_read_is_over_and_what_ran_before_runs(places: Places, text: str | None) -> None:
    slots.note_before(places, "one")
    if text is not None:
        places.trial.write_text(text)
    assert picked(places) == picked(places, "session") == picked(places, "trial") == "one"
    slots.note_before(places, PACKAGED)
    assert picked(places) == picked(places, "trial") == PACKAGED


def test_U3_what_ran_before_a_lost_trial_may_have_rotted_too(places: Places) -> None:
    slots.note_before(places, "one")
    records.write(places.book, records.Book())
    assert start(places, MOST_LOOSE_STARTS + 1) == ["one"] * MOST_LOOSE_STARTS + [PACKAGED]


def test_LC_16_it_reads_no_library_of_a_slot(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large a version is, its start waits for a few small files."""
    real, read = launch._bytes, []

    def noted(path: str) -> bytes:
        read.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(launch, "_bytes", noted)
    assert picked(places) == "two"
    assert sorted(read) == [".two.ready.json", "book.json", "manifest.json", "starts.json", "trial.json"]
