"""LC-13, U3: what may be switched to, from where, and by whose authority; and what is kept on the disk."""

import msgspec
import pytest

import support.slots
from hostler.agent.upgrade import ending, order, records, slots
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.order import Who, activation, check_free, rollback
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import KEPT, RETURNED, RETURNING, Book, Trial
from support.keys import NOW
from support.refusals import refused
from support.releases import House
from support.slots import make_slot, offer, places_in, release

WHO = Who("uid", "tsk", "boot", NOW)
HOUSE = House()


@pytest.fixture
def places(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Places:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(order, "__version__", "1.0.0")
    HOUSE.releases = ()
    return places_in(tmp_path)


def installed_in(places: Places, running: str = PACKAGED) -> Installed:
    return support.slots.installed_in(places, running, HOUSE)


def stage(places: Places, version: str, name: str = "", **more: tuple[str, ...]) -> str:
    name = name or f"{version}-c0ffee00"
    make_slot(places, name, version)
    slots.note_release(places, name, release(version, **more))
    offer(places, HOUSE, *HOUSE.releases, release(version, **more))
    return name


def activated(installed: Installed, version: str, *, repair: bool = False) -> Trial | None:
    return activation(installed, version, WHO, 90, repair=repair)


def test_LC_13_a_staged_version_goes_on_trial_from_the_one_that_runs(places: Places) -> None:
    name = stage(places, "1.1.0")
    trial = activated(installed_in(places), "1.1.0")
    assert trial is not None
    assert (trial.slot, trial.version, trial.from_slot, trial.from_version) == (name, "1.1.0", PACKAGED, "1.0.0")
    assert (trial.key, trial.baseline_serial, trial.trial_ms, trial.phase) == ("uid", "serial-1", 90_000, "ordered")


def test_the_version_that_runs_already_needs_no_trial_unless_it_is_to_be_repaired(places: Places) -> None:
    assert activated(installed_in(places), "1.0.0") is None
    again = activated(installed_in(places), "1.0.0", repair=True)
    assert again is not None
    assert again.slot == PACKAGED


def test_LC_10_a_damaged_version_that_runs_is_repaired_by_another_slot_of_it(places: Places) -> None:
    (places.packaged / "lib/one.py").write_text("changed")
    installed = installed_in(places)
    assert refused(activated, installed, "1.0.0") == "upgrade_not_staged"
    name = stage(places, "1.0.0")
    trial = activated(installed, "1.0.0")
    assert trial is not None
    assert trial.slot == name


@pytest.mark.parametrize("harm", ["changed", "gone", "more", "link"])
def test_PG_06_a_slot_that_is_not_as_it_was_built_is_not_switched_to(places: Places, harm: str) -> None:
    home = places.home(stage(places, "1.1.0"))
    if harm == "changed":
        (home / "lib/one.py").write_text("changed")
    elif harm == "gone":
        (home / "lib/one.py").unlink()
    elif harm == "more":
        (home / "lib/two.py").write_text("more")
    else:
        (home / "bin/python3").unlink()
        (home / "bin/python3").symlink_to("/tmp/python3")
    assert refused(activated, installed_in(places), "1.1.0") == "upgrade_not_staged"


def test_U3_down_goes_only_what_the_release_itself_allows(places: Places) -> None:
    stage(places, "0.9.0")
    assert refused(activated, installed_in(places), "0.9.0") == "downgrade_denied"
    stage(places, "0.8.0", replaces=("1.0.0",))
    assert activated(installed_in(places), "0.8.0") is not None
    make_slot(places, "unsigned", "0.7.0")
    assert refused(activated, installed_in(places), "0.7.0") == "downgrade_denied"


def test_U3_back_goes_what_has_stood_a_trial_here_and_nothing_else(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = stage(places, "1.1.0"), stage(places, "1.2.0")
    stage(places, "1.0.5")
    monkeypatch.setattr(order, "__version__", "1.2.0")
    installed = installed_in(places, running=new)
    records.write(places.book, Book(good=(old, new), previous=old))
    assert rollback(installed, "", WHO, 90, "slow").slot == old
    assert rollback(installed, "1.1.0", WHO, 90, "slow").from_slot == new
    assert rollback(installed, "1.0.0", WHO, 90, "slow").slot == PACKAGED
    assert refused(rollback, installed, "1.0.5", WHO, 90, "slow") == "downgrade_denied"
    assert refused(rollback, installed, "1.2.0", WHO, 90, "slow") == "upgrade_not_staged"
    assert refused(rollback, installed, "7.7.7", WHO, 90, "slow") == "upgrade_not_staged"


def test_one_trial_at_a_time(places: Places) -> None:
    stage(places, "1.1.0")
    trial = activated(installed_in(places), "1.1.0")
    assert trial is not None
    records.write(places.trial, trial)
    check_free(places, "uid")
    assert refused(check_free, places, "another") == "trial_open"


def test_EV_09_a_version_that_was_given_up_is_bad_and_the_return_is_told(places: Places) -> None:
    name = stage(places, "1.1.0")
    trial = activated(installed_in(places), "1.1.0")
    assert trial is not None
    given_up = msgspec.structs.replace(trial, phase=RETURNING, error_code="upgrade_rolled_back", reason="it hung")
    records.write(places.trial, given_up)
    for _ in range(2):  # a power cut may have it done again
        ending.give_up(places, given_up, PACKAGED, {"started": 5}, 77)
        told, verdict = records.returned(places), records.verdict(places, "uid")
        assert told is not None
        assert verdict is not None
        assert (told.version, told.to_version, told.task_id, told.reason, told.at_ms) == (
            "1.1.0", "1.0.0", "tsk", "it hung", 77,
        )  # fmt: skip
        assert (verdict.end, verdict.error_code, verdict.checks) == (RETURNED, "upgrade_rolled_back", {"started": 5})
        assert records.book(places).bad == {name: "it hung"}
        assert not places.trial.exists()
    assert [(one.version, one.state) for one in slots.listing(places, PACKAGED)] == [
        ("1.0.0", "running"), ("1.1.0", "bad"),
    ]  # fmt: skip


def test_a_version_that_is_kept_is_good_and_the_one_before_is_what_to_go_back_to(places: Places) -> None:
    first, second = stage(places, "1.1.0"), stage(places, "1.2.0")
    for name, version, running in ((first, "1.1.0", PACKAGED), (second, "1.2.0", first)):
        trial = activated(installed_in(places, running), version)
        assert trial is not None
        trial = msgspec.structs.replace(trial, key=name)
        for _ in range(2):
            ending.keep(places, trial, {"started": 1}, 5)
        verdict = records.verdict(places, name)
        assert verdict is not None
        assert verdict.end == KEPT
    assert records.book(places) == Book(good=(first, second), previous=first)
    assert [(one.version, one.state) for one in slots.listing(places, second)] == [
        ("1.0.0", "packaged"), ("1.1.0", "previous"), ("1.2.0", "running"),
    ]  # fmt: skip


def test_only_what_may_be_needed_again_is_kept(places: Places) -> None:
    names = [stage(places, f"1.{minor}.0") for minor in range(1, 6)]
    slots.switch(places, names[3])
    records.write(places.book, Book(good=(names[0], names[2]), bad={names[1]: "x"}, previous=names[2]))
    (places.slots / ".new-1.9.0").mkdir()
    gone = slots.prune(places, frozenset({names[4]}))
    assert gone == (".new-1.9.0", names[0], names[1])
    assert {one.name for one in slots.every(places)} == {PACKAGED, *names[2:]}
    assert slots.release_of(places, names[0]) is None
    assert slots.release_of(places, names[2]) is not None
    assert records.book(places) == Book(good=(names[2],), bad={}, previous=names[2])


def test_the_link_is_replaced_whole_and_names_no_other_place(places: Places) -> None:
    name = stage(places, "1.1.0")
    slots.switch(places, name)
    assert slots.current(places) == name
    places.current.unlink()
    places.current.symlink_to("/etc")
    assert slots.current(places) == PACKAGED
    slots.switch(places, PACKAGED)
    assert not places.current.is_symlink()


def test_what_is_written_of_trials_is_bounded_and_a_broken_file_is_no_file(places: Places) -> None:
    stage(places, "1.1.0")
    trial = activated(installed_in(places), "1.1.0")
    assert trial is not None
    for number in range(20):
        ending.keep(places, msgspec.structs.replace(trial, key=str(number)), {}, number)
    assert records.verdict(places, "11") is None
    assert records.verdict(places, "12") is not None
    for path in (places.trial, places.verdicts, places.book, places.returned):
        path.write_bytes(b"\0" * 100)
    assert records.trial(places) is None
    assert records.verdict(places, "19") is None
    assert records.book(places) == Book()
