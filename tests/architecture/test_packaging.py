"""PG-03, PG-06: what goes into the packages is pinned, and fits what the project asks for."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from hostler.cli.main import main as cli

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PACKAGES = ("hostler", "hostler-agent", "hostler-control")


def test_PG_06_the_locks_fit_the_project_s_requirements() -> None:
    command = [sys.executable, str(PACKAGING / "deb_lock.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_PG_06_every_locked_version_is_the_one_that_the_tests_run_with(package: str) -> None:
    tested = set(PACKAGING.joinpath("constraints.txt").read_text().lower().replace("_", "-").split())
    locked = re.findall(r"^([a-z0-9._-]+==[^ ]+) ", (PACKAGING / "locks" / f"{package}.txt").read_text(), re.MULTILINE)
    assert locked
    # pip is what sqlite-utils asks for; the package leaves it out
    assert {pin for pin in locked if not pin.startswith("pip==")} <= tested


@pytest.mark.parametrize("package", PACKAGES)
def test_PG_03_maintainer_scripts_stop_at_the_first_error(package: str) -> None:
    for name in ("postinst", "prerm", "postrm"):
        text = (PACKAGING / "debian" / package / name).read_text()
        assert text.startswith("#!/bin/sh\nset -e\n"), name


def typed(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command of the command line, as people type it."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    for name, inner in command.commands.items():
        yield from typed(inner, (*words, name))


def test_PG_03_manual_pages_and_completions_are_of_every_program_and_the_page_has_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(PACKAGING)
    words, parts = import_module("deb_words"), import_module("deb_parts")
    for package in parts.PACKAGES.values():
        (program,) = package.programs
        (page,) = words.manual_pages(package, 0).values()
        assert {f"bash-completion/completions/{program}", f"zsh/vendor-completions/_{program}"} <= set(
            words.completions(package)
        )
        assert page.startswith(f".TH {program.upper()} ")
        if program == "hostler":
            told = [line.replace("\\-", "-") for line in page.splitlines() if line.startswith(".SS ")]
            missing = [name for name in typed(cli) if not any(f"{line} ".startswith(f".SS {name} ") for line in told)]
            assert missing == []


def test_LC_13_the_watcher_of_a_trial_stops_before_its_record_is_removed() -> None:
    """Else it writes the record again, and at the next boot undoes what dpkg has installed."""
    text = (PACKAGING / "debian/hostler-agent/postinst").read_text()
    assert 0 < text.index("stop hostler-trial.service") < text.index("rm -f /var/lib/hostler-agent/current")
