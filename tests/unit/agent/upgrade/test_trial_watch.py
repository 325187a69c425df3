"""LC-13, LC-16, U1, U3: whatever ends the watcher or the machine, and wherever, one version runs at the end, the right
one, and the trial has one verdict. The launcher is the real one; what it starts behaves as the test says."""

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostler.agent import trial_watch
from hostler.agent.runner import faults
from hostler.agent.trial_watch import Watch
from hostler.agent.upgrade import ending, launch, records, slots
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import KEPT, RETURNED, Said, Trial
from hostler.base.errors import error
from support.slots import make_slot, places_in

NOW = f"{sys.version_info[0]}.{sys.version_info[1]}"
GOOD, CRASHES, HANGS = "good", "crashes", "hangs"
SWITCHES = [f"{at}:trial.switch" for at in ("before_intent", "after_intent", "after_effect")]
RETURNS = [f"{at}:trial.return" for at in ("before_intent", "after_intent", "after_effect")]
SYNC, SYNCED = "sync_directory", (slots, ending)  # what makes names last, and who does


class DiedError(Exception):
    pass


class Machine:
    """Stands for systemd and the units: `begin` restarts the agent by the launcher, as the unit does."""

    def __init__(self, places: Places, behaves: dict[str, str]) -> None:
        self.places, self.behaves = places, behaves
        self.boot, self.running, self.restarts = "boot-1", PACKAGED, 0

    async def begin(self, unit: str, action: str) -> None:
        assert (unit, action) == ("hostler-agent.service", "restart")
        self.restarts += 1
        self.start()

    def start(self) -> None:
        base = str(self.places.base)
        self.running, _ = launch.pick(["run"], base, str(self.places.packaged))
        launch.count(self.running, base)
        trial = records.trial(self.places)
        if trial is None or self.behaves.get(self.running, GOOD) != GOOD:
            return
        found = slots.found(self.places, self.running)
        assert found is not None
        said = Said(key=trial.key, slot=self.running, version=found.version, started_ms=1)
        if self.running == trial.slot:
            said = msgspec.structs.replace(said, renewed_ms=2, connected_ms=3, task_done_ms=4)
        records.write(self.places.evidence, said)

    async def unit_state(self, unit: str) -> Any:
        """A version that crashes is down whenever one looks, and is started again."""
        if self.behaves.get(self.running, GOOD) == CRASHES:
            self.start()
        up = self.behaves.get(self.running, GOOD) != CRASHES
        return SimpleNamespace(active="active" if up else "activating", sub="running" if up else "auto-restart")

    def power_cut(self) -> None:
        self.boot += "+"
        self.start()

    def watch(self) -> None:
        """One life of the watcher."""

        async def served() -> bool:
            return True

        asyncio.run(Watch(self.places, self, self.boot, lambda serial: True, served).run())  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    places = places_in(tmp_path)
    (places.packaged / "manifest.json").write_text(
        (places.packaged / "manifest.json").read_text().replace('"3.11"', f'"{NOW}"')
    )
    make_slot(places, "one", "1.1.0", python=NOW)
    make_slot(places, "two", "1.2.0", python=NOW)
    slots.switch(places, "one")
    made = Machine(places, {})
    made.running = "one"
    monkeypatch.setattr(launch, "_boot_id", lambda: made.boot)
    monkeypatch.setattr(trial_watch, "LOOK_S", 0.002)
    monkeypatch.setattr(trial_watch, "RETURN_MS", 200)
    yield made
    faults.arm([], enabled=True)


def ordered(machine: Machine, trial_ms: int = 200) -> None:
    trial = Trial(
        key="uid", task_id="tsk", kind="activate", version="1.2.0", commit="c", slot="two", from_version="1.1.0",
        from_slot="one", trial_ms=trial_ms, baseline_serial="1", boot_id=machine.boot, ordered_ms=1,
    )  # fmt: skip
    records.write(machine.places.trial, trial)


def to_the_end(machine: Machine, died: Callable[[], None]) -> int:
    """Lives of the watcher until the trial is over; `died` is called after each that was cut off."""
    for lives in range(1, 20):
        try:
            machine.watch()
        except (DiedError, faults.FaultError):
            died()
        else:
            return lives
    raise AssertionError("it does not end")


def check_end(machine: Machine, slot: str, end: str) -> None:
    places = machine.places
    verdict, book = records.verdict(places, "uid"), records.book(places)
    assert verdict is not None
    assert (verdict.end, machine.running, slots.current(places)) == (end, slot, slot)
    assert not places.trial.exists()
    assert not places.evidence.exists()
    assert launch.starts({"key": "uid"}, str(places.base)) == {}
    assert not places.before.is_symlink()
    assert ("two" in book.good, "two" in book.bad) == (end == KEPT, end == RETURNED)


@pytest.mark.parametrize(
    ("new", "old", "slot", "end"),
    [
        (GOOD, GOOD, "two", KEPT),
        (CRASHES, GOOD, "one", RETURNED),
        (HANGS, GOOD, "one", RETURNED),
        (CRASHES, CRASHES, PACKAGED, RETURNED),
        (HANGS, HANGS, PACKAGED, RETURNED),
    ],
)
def test_U1_a_trial_ends_with_the_one_version_that_works(
    machine: Machine, new: str, old: str, slot: str, end: str
) -> None:
    machine.behaves = {"two": new, "one": old}
    ordered(machine)
    machine.watch()
    check_end(machine, slot, end)


@pytest.mark.parametrize("cut", ["the watcher is killed", "the power is cut"])
@pytest.mark.parametrize("fault", [*SWITCHES, "before_intent:trial.judge", *RETURNS])
def test_U3_ended_at_any_boundary_a_trial_converges(machine: Machine, fault: str, cut: str) -> None:
    machine.behaves = {"two": CRASHES} if "return" in fault else {}
    boundary, _, kind = fault.partition(":")
    faults.arm([f"{boundary}:error:{kind}"], enabled=True)
    ordered(machine)
    lives = to_the_end(machine, machine.power_cut if "power" in cut else lambda: None)
    assert lives == 2, "the fault was not hit"
    check_end(machine, *(("one", RETURNED) if "return" in fault else ("two", KEPT)))


@pytest.mark.parametrize("new", [GOOD, CRASHES])
def test_K7_cut_off_at_any_write_a_trial_converges(machine: Machine, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher dies before, and then after, each single thing that it writes; each time the power goes with it."""
    machine.behaves = {"two": new}
    for number in itertools.count():
        at, cuts = itertools.count(), []

        def dying(real: Callable[..., Any], at: Any = at, number: int = number, cuts: list[int] = cuts) -> Any:
            def call(*words: Any) -> Any:
                if next(at) == number and not cuts:
                    cuts.append(number)
                    raise DiedError
                done = real(*words)
                if next(at) == number and not cuts:
                    cuts.append(number)
                    raise DiedError
                return done

            return call

        slots.switch(machine.places, "one")
        machine.places.verdicts.unlink(missing_ok=True)
        machine.places.book.unlink(missing_ok=True)
        machine.running, machine.boot = "one", f"boot-{number}"
        ordered(machine)
        with monkeypatch.context() as patched:
            for module, name in (
                (records, "write"), (records, "note_verdict"), (slots, "switch"), *((each, SYNC) for each in SYNCED),
            ):  # fmt: skip
                patched.setattr(module, name, dying(getattr(module, name)))
            with contextlib.suppress(DiedError):
                machine.watch()
        if not cuts:
            assert number > 10, "too little was written to prove anything"
            return
        machine.power_cut()
        machine.watch()
        check_end(machine, *(("one", RETURNED) if new == CRASHES else ("two", KEPT)))


def test_U1_a_watcher_that_is_killed_again_and_again_still_judges(machine: Machine) -> None:
    machine.behaves = {"two": HANGS}
    ordered(machine, trial_ms=300)

    async def killed() -> None:
        async def served() -> bool:
            return True

        watch = Watch(machine.places, machine, machine.boot, lambda serial: True, served)  # type: ignore[arg-type]
        await asyncio.wait_for(watch.run(), 0.05)

    for _ in range(400):
        try:
            asyncio.run(killed())
        except TimeoutError:
            continue
        break
    check_end(machine, "one", RETURNED)
    assert machine.restarts == 2, "to the new version once, and back once"


def test_U3_a_machine_that_never_stays_up_returns_after_its_third_boot(machine: Machine) -> None:
    machine.behaves = {"two": HANGS}
    ordered(machine, trial_ms=600_000)
    boots = 0
    while machine.places.trial.exists():
        assert boots < 6, "it goes round for ever"

        async def for_a_while() -> None:
            async def served() -> bool:
                return True

            watch = Watch(machine.places, machine, machine.boot, lambda serial: True, served)  # type: ignore[arg-type]
            await asyncio.wait_for(watch.run(), 0.5)  # in which it notes that this boot was

        try:
            asyncio.run(for_a_while())
        except TimeoutError:
            machine.power_cut()
            boots += 1
    assert boots == 3
    check_end(machine, "one", RETURNED)


def test_LC_21_a_version_whose_certificate_is_not_seen_renewed_is_returned_from(machine: Machine) -> None:
    ordered(machine)

    async def served() -> bool:
        return True

    asyncio.run(Watch(machine.places, machine, machine.boot, lambda serial: False, served).run())  # type: ignore[arg-type]
    check_end(machine, "one", RETURNED)
    verdict = records.verdict(machine.places, "uid")
    assert verdict is not None
    assert verdict.checks == {"started": 1, "renewed": 0, "connected": 3, "task_done": 4}


def test_U2_while_the_control_plane_turns_us_away_nothing_is_returned_from(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away for four times the length of a trial; then the version does what it must."""
    monkeypatch.setattr("hostler.agent.upgrade.judge.ASK_EVERY_MS", 20)
    ordered(machine, trial_ms=150)
    away_until = time.monotonic() + 0.6
    asked = []

    async def served() -> bool:
        asked.append(time.monotonic())
        return asked[-1] > away_until

    watch = Watch(machine.places, machine, machine.boot, lambda serial: time.monotonic() > away_until, served)  # type: ignore[arg-type]
    asyncio.run(watch.run())
    check_end(machine, "two", KEPT)
    verdict = records.verdict(machine.places, "uid")
    assert verdict is not None
    assert verdict.extended > 3
    assert len(asked) > 3


def test_U3_a_verdict_that_was_given_stands_whatever_comes_after_it(machine: Machine) -> None:
    """The power went between the verdict and the end of the trial, and the version's words with it."""
    ordered(machine)
    machine.watch()
    verdict = records.verdict(machine.places, "uid")
    ordered(machine)
    machine.behaves = {"two": HANGS}
    restarts = machine.restarts
    machine.power_cut()
    machine.watch()
    check_end(machine, "two", KEPT)
    assert records.verdict(machine.places, "uid") == verdict
    assert machine.restarts == restarts


@pytest.mark.parametrize("last", ["evidence", "starts", "before"])
def test_U3_a_watcher_that_dies_at_the_end_of_a_return_leaves_the_node_where_it_has_returned_to(
    machine: Machine, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and only the files of the trial have to go; the version before does not say twice that it runs."""
    machine.behaves = {"two": CRASHES}
    ordered(machine)
    real = Path.unlink

    def dying(path: Path, missing_ok: bool = False) -> None:
        real(path, missing_ok)
        if path == getattr(machine.places, last) and records.verdict(machine.places, "uid"):
            monkeypatch.setattr(Path, "unlink", real)
            raise DiedError

    monkeypatch.setattr(Path, "unlink", dying)
    lives = to_the_end(machine, lambda: None)
    assert lives == 2, "the fault was not hit"
    check_end(machine, "one", RETURNED)
    assert machine.restarts == 2, "to the new version once, and back once"


def test_a_record_that_nobody_can_read_ends_the_watch(machine: Machine) -> None:
    machine.places.trial.write_bytes(b"\0" * 40)
    machine.watch()
    assert not machine.places.trial.exists()
    assert machine.restarts == 0


def fill_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, link: bool) -> list[str]:
    """From the switch on, until five times was in vain: no word of a return goes to the disk, and no link unless
    `link`. → what ran after each restart."""
    monkeypatch.setattr(trial_watch, "_AGAIN_S", 0.01)
    real, links, begin = records.write, Path.symlink_to, machine.begin
    refused, seen = 0, list[str]()

    def full(path: Path, value: msgspec.Struct) -> None:
        nonlocal refused
        if isinstance(value, Trial) and value.phase == records.RETURNING and refused < 5:
            refused += 1
            raise error("file_error", "No space left on device")
        real(path, value)

    def no_link(path: Path, target: str) -> None:
        if refused < 5:
            raise OSError(28, "No space left on device")
        links(path, target)

    async def noted(unit: str, action: str) -> None:
        if not link and not seen:
            monkeypatch.setattr(Path, "symlink_to", no_link)
        await begin(unit, action)
        seen.append(machine.running)

    monkeypatch.setattr(records, "write", full)
    monkeypatch.setattr(machine, "begin", noted)
    return seen


@pytest.mark.parametrize("link", [True, False])
def test_LC_16_a_full_disk_does_not_keep_a_node_on_a_version_that_failed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    """Nothing can be written until the version has gone; where not even a link can, the installed package runs."""
    machine.behaves = {"two": HANGS}
    ordered(machine, trial_ms=50)
    seen = fill_disk(machine, monkeypatch, link=link)
    machine.watch()
    assert seen == ["two", "one" if link else PACKAGED, "one"]
    check_end(machine, "one", RETURNED)


def ordered_back(machine: Machine, trial_ms: int = 200) -> None:
    """To the installed package, which stands its trial too."""
    ordered(machine, trial_ms)
    trial, package = records.trial(machine.places), slots.found(machine.places, PACKAGED)
    assert trial is not None
    assert package is not None
    back = {"slot": PACKAGED, "version": package.version, "kind": records.ROLLBACK}
    records.write(machine.places.trial, msgspec.structs.replace(trial, **back))


def test_LC_16_on_a_full_disk_the_installed_package_is_not_started_again_and_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the last that is left while no link to another can be made: it runs until one can."""
    machine.behaves = {PACKAGED: HANGS}
    ordered_back(machine, trial_ms=50)
    seen = fill_disk(machine, monkeypatch, link=False)
    machine.watch()
    assert seen == [PACKAGED, "one", "one"]


def test_LC_13_a_return_to_the_installed_package_stands_its_trial(machine: Machine) -> None:
    ordered_back(machine)
    machine.watch()
    verdict = records.verdict(machine.places, "uid")
    assert verdict is not None
    assert (verdict.end, machine.running, slots.current(machine.places)) == (KEPT, PACKAGED, PACKAGED)
