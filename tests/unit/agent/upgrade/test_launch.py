"""LC-13, U1, U3: the launcher starts something whatever it finds, and never what has failed its starts on trial."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.upgrade import launch, slots
from hostler.agent.upgrade.launch import MOST_STARTS, candidates, count, is_whole, pick, starts
from hostler.agent.upgrade.places import PACKAGED, Places
from support.slots import make_slot, places_in

NOW = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = places_in(tmp_path)
    for name in ("one", "two"):
        make_slot(made, name, f"{len(name)}.0.{name == 'two':d}", python=NOW)
    return made


def picked(places: Places, *arguments: str) -> str:
    return pick(list(arguments), str(places.base), str(places.packaged))[0]


def on_trial(places: Places, **more: Any) -> None:
    places.trial.write_text(json.dumps({"key": "uid", "slot": "two", "from_slot": "one"} | more))


def started(places: Places, **counts: int) -> None:
    for name, times in counts.items():
        for _ in range(times):
            count(name, str(places.base))


def test_without_a_link_the_installed_package_runs(places: Places) -> None:
    assert picked(places, "run") == PACKAGED


def test_the_link_names_the_slot(places: Places) -> None:
    slots.switch(places, "one")
    assert picked(places, "run") == picked(places, "session") == "one"
    slots.switch(places, PACKAGED)
    assert picked(places, "run") == PACKAGED


@pytest.mark.parametrize(
    "leads", ["slots/.new-x", "/slots/one", "../one", "slots/../one", "slots/", "one", "a/slots/one"]
)
def test_a_link_that_is_none_of_ours_counts_for_nothing(places: Places, leads: str) -> None:
    places.current.symlink_to(leads)
    assert picked(places, "run") == PACKAGED


@pytest.mark.parametrize("gone", ["manifest.json", "bin/python3", "bin/hostler-agent", "pyvenv.cfg"])
def test_U1_a_slot_that_is_not_whole_is_passed_over(places: Places, gone: str) -> None:
    slots.switch(places, "two")
    (places.home("two") / gone).unlink()
    assert picked(places, "run") == PACKAGED
    on_trial(places)
    assert picked(places, "run") == "one"


def test_a_slot_of_another_python_is_passed_over(places: Places) -> None:
    """The host was upgraded to another release of Debian."""
    make_slot(places, "three", "3.0.0", python="3.1")
    assert not is_whole(str(places.home("three")))
    slots.switch(places, "three")
    assert picked(places, "run") == PACKAGED


def test_U1_a_slot_that_failed_its_starts_on_trial_gives_way_to_the_one_before_and_that_to_the_package(
    places: Places,
) -> None:
    slots.switch(places, "two")
    on_trial(places)
    for number in range(MOST_STARTS):
        assert picked(places, "run") == "two", number
        started(places, two=1)
    assert picked(places, "run") == picked(places, "session") == "one"
    started(places, one=MOST_STARTS)
    assert picked(places, "run") == PACKAGED
    started(places, packaged=MOST_STARTS)
    assert picked(places, "run") == PACKAGED, "there is always something to start"


def test_starts_of_another_trial_or_boot_do_not_count(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    slots.switch(places, "two")
    on_trial(places)
    started(places, two=MOST_STARTS)
    on_trial(places, key="another")
    assert picked(places, "run") == "two"
    on_trial(places)
    monkeypatch.setattr(launch, "_boot_id", lambda: "another")
    assert picked(places, "run") == "two"


def test_what_is_counted_is_there_for_the_sessions_launcher_too(places: Places) -> None:
    on_trial(places)
    before = os.umask(0o077)
    try:
        started(places, two=1)
    finally:
        os.umask(before)
    assert places.starts.stat().st_mode & 0o777 == 0o644


def test_LC_16_the_watcher_is_of_the_version_before(places: Places) -> None:
    slots.switch(places, "two")
    on_trial(places)
    assert picked(places, "trial") == "one"
    (places.home("one") / "manifest.json").unlink()
    assert picked(places, "trial") == PACKAGED


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"from_slot": 3}', "[" * 100_000, '{"key": "uid", "counts": 7}']
)
@pytest.mark.parametrize("name", ["trial.json", "starts.json"])
def test_U3_what_cannot_be_read_keeps_nothing_from_starting(places: Places, name: str, text: str) -> None:
    slots.switch(places, "two")
    (places.base / name).write_text(text)
    assert picked(places, "run") == "two"
    assert starts({"key": "uid"}, str(places.base)) == {}
    assert candidates(["trial"], str(places.base))[-1] == PACKAGED


def test_it_becomes_the_program_of_the_slot_with_all_that_it_was_given(places: Places, tmp_path: Path) -> None:
    for name in ("one", PACKAGED):
        program = places.home(name) / "bin/hostler-agent"
        program.write_text(f"import sys\nprint({name!r}, sys.argv[1:], sys.flags.isolated)\n")
    slots.switch(places, "one")
    script = tmp_path / "launch"
    text = Path(launch.__file__).read_text()
    script.write_text(text.replace(launch.BASE, str(places.base)).replace(launch.PACKAGED, str(places.packaged)))
    command = ["/usr/bin/python3", "-IS", str(script), "status", "--json"]
    environment = os.environ | {"INVOCATION_ID": "x"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert said == "one ['status', '--json'] 1\n"


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = f"import sys; exec(open({launch.__file__!r}).read(), {{'__name__': 'x'}}); print(*sorted(sys.modules))"
    said = subprocess.run(["/usr/bin/python3", "-IS", "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"typing", "pathlib", "dataclasses", "msgspec"} & set(said.split())
    assert len(Path(launch.__file__).read_text().splitlines()) < 150


def test_U1_the_session_reads_what_the_agent_has_counted(places: Places) -> None:
    """Its user is another, and the agent's umask is 0077: else it would run a version that the agent has left."""
    slots.switch(places, "two")
    on_trial(places)
    before = os.umask(0o077)
    try:
        started(places, two=MOST_STARTS)
    finally:
        os.umask(before)
    assert places.starts.stat().st_mode & 0o777 == 0o644
    assert picked(places, "session") == "one"


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["trial.json", "starts.json", "slots/two/manifest.json"])
def test_U1_what_is_no_file_keeps_nothing_from_starting(places: Places, name: str) -> None:
    slots.switch(places, "two")
    on_trial(places)
    path = places.base / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert picked(places, "run") in ("one", "two", PACKAGED)


def test_U1_a_file_without_end_keeps_nothing_from_starting(places: Places) -> None:
    slots.switch(places, "two")
    with places.trial.open("wb") as file:
        file.truncate(1 << 40)
    assert picked(places, "run") == "two"


def test_LC_13_the_installed_package_itself_is_on_trial(places: Places) -> None:
    """A return to it takes the link away; what ran before is next only once it has failed its starts."""
    on_trial(places, slot=PACKAGED, from_slot="one")
    assert picked(places, "run") == picked(places, "session") == PACKAGED
    started(places, **{PACKAGED: MOST_STARTS})
    assert picked(places, "run") == "one"
