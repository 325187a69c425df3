"""U3, K7: a trial whose record cannot be read ends with the version before, never with the one that nobody proved."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.agent.upgrade.test_trial_watch import HANGS, SWITCHES, SYNC, SYNCED, DiedError, Machine, machine, ordered

from hostler.agent import trial_watch
from hostler.agent.runner import faults
from hostler.agent.upgrade import launch, records, slots
from hostler.agent.upgrade.stand_in import RECORD_LOST
from hostler.base.errors import error

__all__ = ["machine"]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.arm([], enabled=True)


def begun(machine: Machine) -> None:
    """The version is on trial, and its watcher was killed."""
    machine.behaves = {"two": HANGS}
    faults.arm(["after_effect:error:trial.switch"], enabled=True)
    ordered(machine)
    with pytest.raises(faults.FaultError):
        machine.watch()
    assert machine.running == "two"
    faults.arm([], enabled=True)


def check_back(machine: Machine) -> None:
    places = machine.places
    assert (machine.running, slots.current(places), slots.before(places)) == ("one", "one", "")
    assert not places.trial.exists()
    told = records.returned(places)
    assert told is not None
    assert (told.version, told.to_version, told.error_code) == ("1.2.0", "1.1.0", "upgrade_rolled_back")
    assert told.reason == RECORD_LOST


@pytest.mark.parametrize("data", [b"", b"{", b"\0" * 40, b"{}", b'{"key": "uid", "from_slot": 3}'])
def test_U3_back_to_the_version_before(machine: Machine, data: bytes) -> None:
    begun(machine)
    machine.places.trial.write_bytes(data)
    machine.watch()
    check_back(machine)
    assert records.book(machine.places).bad == {}, "nothing is known against it"


@pytest.mark.parametrize("data", [b"\0" * 40, None])
def test_K7_with_a_power_cut_on_top(machine: Machine, data: bytes | None) -> None:
    """Also where no watcher starts any more, because the record is gone altogether: the launcher knows."""
    begun(machine)
    machine.places.trial.unlink() if data is None else machine.places.trial.write_bytes(data)
    machine.power_cut()
    assert machine.running == "one"


@pytest.mark.parametrize("at", range(4))
def test_K7_cut_off_on_its_way_back_it_gets_there(machine: Machine, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    begun(machine)
    machine.places.trial.write_bytes(b"\0" * 40)
    name = ("switch", "forget_before", SYNC, SYNC)[at]
    real, calls = getattr(slots, name), []

    def dying(*words: object) -> object:
        calls.append(name)
        if len(calls) == max(1, at - 1):
            raise DiedError
        return real(*words)

    with monkeypatch.context() as patched:
        for module in SYNCED if name == SYNC else (slots,):
            patched.setattr(module, name, dying)
        with pytest.raises(DiedError):
            machine.watch()
    machine.power_cut()
    if machine.places.trial.exists():
        machine.watch()
    check_back(machine)


def test_LC_16_also_where_nothing_can_be_written(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(machine)
    machine.places.trial.write_bytes(b"")

    def full(path: Path, value: object) -> None:
        raise error("file_error", "No space left on device")

    monkeypatch.setattr(records, "write", full)
    machine.watch()
    assert (machine.running, slots.current(machine.places)) == ("one", "one")


@pytest.mark.parametrize("fault", SWITCHES[:1])
def test_a_trial_that_was_not_begun_needs_no_way_back(machine: Machine, fault: str) -> None:
    boundary, _, kind = fault.partition(":")
    faults.arm([f"{boundary}:error:{kind}"], enabled=True)
    ordered(machine)
    with pytest.raises(faults.FaultError):
        machine.watch()
    machine.places.trial.write_bytes(b"\0")
    machine.watch()
    assert (machine.restarts, machine.running, slots.before(machine.places)) == (0, "one", "")
    assert not machine.places.trial.exists()


@pytest.mark.parametrize("cut_at", range(4))
def test_K7_what_is_left_of_an_end_is_no_lost_trial(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, cut_at: int
) -> None:
    """The power goes before the link does, and at each sync, of the end of a trial that the version has stood."""
    ordered(machine)
    real, calls = getattr(slots, SYNC), []

    def dying_at_once() -> None:
        raise DiedError

    def dying(folder: Path) -> None:
        trial = records.verdict(machine.places, "uid")
        if trial is not None:
            calls.append(folder)
        if cut_at and len(calls) == cut_at:
            raise DiedError
        real(folder)

    with monkeypatch.context() as patched:
        for module in SYNCED:
            patched.setattr(module, SYNC, dying)
        if not cut_at:
            patched.setattr(slots, "forget_before", lambda places: dying_at_once())
        with contextlib.suppress(DiedError):
            machine.watch()
    machine.power_cut()
    assert machine.running == "two", "it has its verdict"


def test_U1_starts_of_the_watcher_are_held_against_no_version(machine: Machine) -> None:
    faults.arm(["before_intent:error:trial.judge"], enabled=True)
    ordered(machine)
    with pytest.raises(faults.FaultError):
        machine.watch()
    faults.arm([], enabled=True)
    launch.count(f"{launch.WATCHER}one", str(machine.places.base))
    machine.watch()
    assert (machine.running, slots.current(machine.places)) == ("two", "two")


def test_U3_a_record_that_cannot_be_read_for_a_moment_is_not_lost(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()
    now_and_then = SimpleNamespace(**vars(records))
    now_and_then.trial = lambda places: None if next(asked) == 1 else records.trial(places)
    monkeypatch.setattr(trial_watch, "records", now_and_then)
    ordered(machine)
    machine.watch()
    assert (machine.running, slots.current(machine.places)) == ("two", "two")
    assert next(asked) > 2
