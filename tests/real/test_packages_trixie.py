"""PG-03, PG-05: the packages for Debian 13 install there, and its own Python runs them: enrol, a task, receipts.

Its systemd does not boot on this kernel's old control groups, so the programs are started by hand; units are the same
files as on Debian 12, where they boot.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import need, need_root, need_slow
from support.debs import ALL, build
from support.house import House, open_house
from support.machines import debian_tree

pytestmark = [pytest.mark.real, pytest.mark.timeout(900), pytest.mark.xdist_group("machines")]


@pytest.fixture(scope="module")
def trixie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Debian 13 with the three packages."""
    need("debootstrap", "dpkg-deb", "git")
    need_root()
    base = debian_tree("trixie", lambda: need_slow("a Debian 13 is three minutes of downloading"))
    place = tmp_path_factory.mktemp("trixie")
    root, upper, work = (place / name for name in ("root", "upper", "work"))
    for made in (root, upper, work):
        made.mkdir()
    with ExitStack() as undo:
        _mount(undo, root, "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={upper},workdir={work}")
        for name in ("proc", "dev"):
            _mount(undo, root / name, "--bind", f"/{name}")
        for package in build(place / "debs", *ALL, suite="trixie"):
            shutil.copy(package, root / "root")
        packages = sorted(f"/root/{path.name}" for path in (root / "root").glob("*.deb"))
        _inside(root, "dpkg", "--install", *packages)
        yield root


def _mount(undo: ExitStack, target: Path, *words: str) -> None:
    subprocess.run(["mount", *words, str(target)], check=True)
    undo.callback(subprocess.run, ["umount", "--lazy", str(target)], check=True)


def _inside(root: Path, *argv: str) -> str:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["chroot", str(root), *argv], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_PG_03_each_program_says_its_version(trixie: Path) -> None:
    for program in ("hostler", "hostler-agent", "hostler-control"):
        assert program in _inside(trixie, program, "--version")
    assert _inside(trixie, "/usr/lib/hostler-agent/bin/python3", "--version").startswith("Python 3.13")
    assert "hostler-session" in _inside(trixie, "cat", "/etc/passwd")


@pytest.fixture
def house(trixie: Path) -> Iterator[House]:
    def programs(name: str) -> list[str]:
        return ["chroot", str(trixie), f"/usr/bin/{name}"]

    with ExitStack() as undo, open_house(programs=programs) as made:
        inside = trixie / made.home.relative_to("/")
        inside.mkdir(parents=True)
        _mount(undo, inside, "--bind", str(made.home))
        yield made


def test_PG_03_a_task_runs_from_package_to_package(house: House) -> None:
    house.serve()
    house.enrol("a")
    house.start("a")
    operation = house.finished(house.submit("node.smoke.noop@v1", {}, nodes=("a",)))
    assert operation["status"] == "succeeded", house.logs()
    assert house.receipts(operation["operation_id"])
    assert os.path.realpath(f"/proc/{house.pids['a']}/exe").endswith("python3.13")


def test_PG_03_what_is_purged_leaves_nothing(trixie: Path) -> None:
    _inside(trixie, "dpkg", "--purge", *ALL)
    for path in (
        "usr/lib/hostler-agent",
        "etc/hostler",
        "var/lib/hostler",
        "usr/lib/hostler-control",
        "usr/lib/hostler",
    ):
        assert not (trixie / path).exists(), path
