"""PG-03, LC-13: what dpkg has the scripts of the agent's package do when an upgrade or a removal does not come about.

The real dpkg and the real scripts, in a root of their own with nothing of systemd in it.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import need, need_root
from support.archive import empty_root

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
SCRIPTS = Path(__file__).parents[2] / "packaging/debian/hostler-agent"
STATE = "var/lib/hostler-agent"


class Place:
    def __init__(self, folder: Path) -> None:
        self._folder, self.root = folder, folder / "root"
        empty_root(self.root)
        for name in ("bin", "dev", "usr"):
            (self.root / name).mkdir()
        (self.root / "dev/null").touch()
        (self.root / "usr/bin").symlink_to("../bin")
        shutil.copy(shutil.which("busybox") or "", self.root / "bin/busybox")
        for name in ("sh", "rm", "find"):
            (self.root / "bin" / name).symlink_to("busybox")

    def install(self, version: str, *, preinst: str = "") -> int:
        """→ dpkg's exit status."""
        tree = self._folder / version
        (tree / "DEBIAN").mkdir(parents=True)
        said = f"Package: hostler-agent\nVersion: {version}\nArchitecture: all\nMaintainer: Test <t@test>\n"
        (tree / "DEBIAN/control").write_text(f"{said}Description: made for a test\n")
        for script in ("postinst", "prerm", "postrm"):
            shutil.copy(SCRIPTS / script, tree / "DEBIAN" / script)
            (tree / "DEBIAN" / script).chmod(0o755)
        if preinst:
            (tree / "DEBIAN/preinst").write_text(f"#!/bin/sh\n{preinst}\n")
            (tree / "DEBIAN/preinst").chmod(0o755)
        made = self._folder / f"{version}.deb"
        subprocess.run(["dpkg-deb", "--build", str(tree), str(made)], check=True, stdout=subprocess.DEVNULL)
        return self.dpkg("--install", str(made))

    def dpkg(self, *words: str) -> int:
        return subprocess.run(["dpkg", f"--root={self.root}", *words], check=False, capture_output=True).returncode

    def put(self, program: str, text: str) -> None:
        path = self.root / "bin" / program
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def link(self) -> Path:
        """To a version that lies beside the installed one, and runs."""
        made = self.root / STATE / "current"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.symlink_to("slots/1.2.0-c0ffee00")
        return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    need("dpkg", "dpkg-deb", "busybox")
    need_root()
    return Place(tmp_path)


def test_LC_13_a_package_that_could_not_be_installed_takes_no_version_away(place: Place) -> None:
    """The old package's script is run then, too: the node would go down to what it had been installed with."""
    assert place.install("1.0.0") == 0
    link = place.link()
    assert place.install("2.0.0", preinst="exit 1") != 0
    assert link.is_symlink()
    assert place.install("2.0.1") == 0
    assert not link.is_symlink(), "what dpkg installs runs"


def test_PG_03_a_removal_that_did_not_come_about_leaves_the_agent_running(place: Place) -> None:
    """What dpkg would have asked of systemd is written down; that there is none to start is the root's doing."""
    assert place.install("1.0.0") == 0
    (place.root / "run/systemd/system").mkdir(parents=True)
    place.put("systemctl", "exit 0")
    place.put("deb-systemd-invoke", 'echo "$@" >> /told')
    place.put("py3clean", "exit 1")
    assert place.dpkg("--remove", "hostler-agent") != 0
    told = (place.root / "told").read_text().splitlines()
    assert [line.split()[0] for line in told] == ["stop", "start"]
    assert "hostler-agent.service" in told[-1]
