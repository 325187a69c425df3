"""A machine that takes its packages from an archive on loopback by `apt-get`, as an operator would."""

import re

import pytest

from hostler.cli.demo_files import Ports
from support.machines import Machine


class Installed:
    """
    Args:
        suite: the machine's Debian release.
        ports: of the control plane that will be installed there.
    """

    def __init__(self, machine: Machine, suite: str, ports: Ports) -> None:
        self.machine, self.suite, self.ports = machine, suite, ports

    def run(self, *argv: str, status: int | None = 0) -> str:
        done = self.machine.run(*argv, timeout_s=240)
        if status is not None and done.returncode != status:
            journal = self.machine.run("journalctl", "-q", "--no-pager", "-n", "40").stdout
            pytest.fail(f"{' '.join(argv)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{journal[-6000:]}")
        return done.stdout

    def apt(self, *words: str) -> None:
        self.run("env", "DEBIAN_FRONTEND=noninteractive", "HOME=/root", "apt-get", "-q", "-y", *words)

    def hostler(self, *words: str) -> str:
        return self.run("env", "HOME=/root", "hostler", *words)

    def noop(self) -> None:
        said = self.hostler("operations", "submit", "node.smoke.noop@v1", "--node", "gpu-1", "--watch")
        assert "succeeded" in said

    # -- files --------------------------------------------------------------------------------------------------------

    def write(self, path: str, text: str) -> None:
        target = self.machine.root / path.lstrip("/")
        target.write_text(text)

    def read(self, path: str) -> str:
        return (self.machine.root / path.lstrip("/")).read_text()

    def is_there(self, path: str) -> bool:
        return self.run("sh", "-c", f"test -e {path} && echo yes || true").strip() == "yes"

    def replace(self, path: str, pattern: str, text: str) -> None:
        changed, count = re.subn(pattern, text, self.read(path), flags=re.MULTILINE)
        assert count, f"{path} has no line like {pattern}"
        self.write(path, changed)

    # -- units --------------------------------------------------------------------------------------------------------

    def shows(self, unit: str, what: str) -> str:
        return self.run("systemctl", "show", "-P", what, unit).strip()

    def is_active(self, unit: str) -> bool:
        return self.shows(unit, "ActiveState") == "active"

    def status(self) -> str:
        return self.run("hostler-agent", "status", status=None)

    def connected(self) -> bool:
        return re.search(r"^session\s+connected$", self.status(), re.MULTILINE) is not None
