"""One booted host that replaces its own agent, the releases that come to it, and what is true at the end of a test.

    with open_hosts(1) as bed, open_releases(bed) as releases:
        updater = Updater(bed, releases)
        updater.kept(version := updater.staged(), updater.activate(version))

One version after the other is put on the host, each higher than the last, so that none is taken for one that lies
there already. What runs at the end of each test is good, and in service (`check_one_agent`).
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hostler.pki.releases import version_key
from support.agent_packages import version_of
from support.agent_releases import TOML, Releases
from support.debs import NUMBERS
from support.hosts import AGENT, Bed, Host
from support.house import FINAL
from support.releases import agent_package

BASE, TRIAL = "/var/lib/hostler-agent", "hostler-trial.service"
LIMIT_S = 120.0  # from the order to the end of a trial that fails, with its return (LC-16)
SHORT_S = 30
FIRST = "0.1.0"  # the package's
STAGE, ACTIVATE, ROLLBACK = "agent.upgrade.stage", "agent.upgrade.activate", "agent.upgrade.rollback"


class Updater:
    """One host, its agent, and the releases that come."""

    def __init__(self, bed: Bed, releases: Releases) -> None:
        self.bed, self.house, self.releases = bed, bed.house, releases
        self.host: Host = bed["n1"]
        self._numbers = itertools.count(1)
        self.runs = self.version()

    # -- what is there ------------------------------------------------------------------------------------------------

    def version(self) -> str:
        status: str = msgspec.json.decode(self.host.read("/var/lib/hostler/status.json"))["version"]
        return status

    def check_one_agent(self, version: str) -> None:
        """Both units are of that version, and there is no other agent."""
        self.bed.until_in_service("n1")
        self.host.until(lambda: self.version() == version, f"version {version} does not run")
        for word in (" run ", " session "):
            self.host.until(lambda word=word: len(self._processes(word)) == 1, f"not one {word}")  # type: ignore[misc]
            line, *_ = self._processes(word)
            assert f"/slots/{version}-" in line or "/usr/lib/hostler-agent/" in line, line
        self.host.until(lambda: not self.host.exists(f"{BASE}/trial.json"), "the trial goes on")
        self.host.until(lambda: self.host.unit(TRIAL).active == "inactive", "the watcher goes on")
        self.bed.noop("n1")

    def _processes(self, word: str) -> list[str]:
        """The words of each agent's; what one is about to start, or has just ended, is one for a moment, too."""
        command = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done"
        lines = self.host.run("sh", "-c", command).splitlines()
        return [line for line in lines if "bin/hostler-agent" in line and word in line]

    def before(self) -> str:
        """The version that a rollback returns to; "" for none."""
        slot = self.record("book").get("previous", "") if self.host.exists(f"{BASE}/book.json") else ""
        return FIRST if slot == "packaged" else str(slot).partition("-")[0]

    def lies_ready(self) -> str:
        """A staged version that is higher than the one that runs, and has not been given up; "" for none."""
        names = self.host.run("ls", f"{BASE}/slots", status=None).split()  # not there before the first stage
        bad = self.record("book")["bad"] if self.host.exists(f"{BASE}/book.json") else {}
        found = [name.partition("-")[0] for name in names if name not in bad]
        return next((each for each in found if version_key(each) > version_key(self.version())), "")

    def record(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.host.path(f"{BASE}/{name}.json").read_bytes())
        return found

    # -- what is done -------------------------------------------------------------------------------------------------

    def staged(self, kind: str = "") -> str:
        """A new version, on the disk."""
        version = self.published(kind)
        operation = self.house.finished(self.submit(STAGE, self.releases.inputs(version)), 90)
        assert operation["status"] == "succeeded", (operation, self.host.journal())
        return version

    def published(self, kind: str = "", *, small: bool = False) -> str:
        version = f"1.{next(self._numbers)}.0"
        self.releases.publish(self.small(version) if small else version_of(version, kind, self.bed.suite))
        return version

    def small(self, version: str) -> Path:
        """A package in form, and no more."""
        made = self.house.home / f"hostler-agent_{version}-1~deb{NUMBERS[self.bed.suite]}u1_amd64.deb"
        made.write_bytes(agent_package(version, suite=self.bed.suite))
        return made

    def submit(self, kind: str, inputs: dict[str, Any] | None = None) -> str:
        return self.house.submit(f"{kind}@v1", inputs or {}, nodes=("n1",))

    def activate(self, version: str, seconds: int = SHORT_S) -> str:
        return self.submit(ACTIVATE, {"version": version, "trial_seconds": seconds})

    def verify(self) -> None:
        """What the control plane sends while a version is on trial; the answer may be long in coming."""
        self.submit("node.agent.verify")

    def ended(self, operation_id: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        operation: dict[str, Any] = self.house.finished(operation_id, limit_s)
        return operation

    def kept(self, version: str, operation_id: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """The end of a trial that it stands; → the step's outputs. The version before may take what is sent first."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.house.operation(operation_id)["status"] not in FINAL:
            self.verify()
            time.sleep(4)
        operation = self.ended(operation_id, 5)
        assert operation["status"] == "succeeded", (operation, self.host.journal("-u", TRIAL, "-u", AGENT))
        self.runs = version
        self.check_one_agent(version)
        return self.outputs(operation_id)

    def outputs(self, operation_id: str) -> dict[str, Any]:
        (receipt,) = self.house.receipts(operation_id)
        (task,) = self.house.operation(operation_id)["tasks"]
        found: dict[str, Any] = task["steps"][-1]["outputs"]
        assert receipt["status"] == "succeeded"
        return found

    def returned(self, version: str, operation_id: str) -> str:
        """The end of a trial that it does not stand; → why, in the words of the version returned to (EV-09)."""
        operation = self.ended(operation_id)
        (task,) = operation["tasks"]
        assert (operation["status"], task["error_code"]) == ("failed", "upgrade_rolled_back"), operation
        told = self.record("returned")
        assert (told["version"], told["to_version"], told["task_id"]) == (version, self.runs, task["task_id"])
        self.check_one_agent(self.runs)
        reason: str = told["reason"]
        assert reason in task["error_message"]
        return reason

    @contextlib.contextmanager
    def held_at(self, point: str, *, agent: bool) -> Iterator[Callable[[], None]]:
        """The process that comes to `point` stops there. What it gives waits for that."""
        plain = self.host.read(TOML)
        self.host.put(TOML, plain + f'\n[testing]\nenabled = true\nfault_points = ["{point}"]\n')
        if agent:
            self.host.run("systemctl", "restart", AGENT)
            self.bed.until_in_service("n1")

        def wait() -> None:
            self.host.until(lambda: self._is_held(AGENT if agent else TRIAL), f"{point} was not reached", 60)

        yield wait
        self.host.put(TOML, plain)

    def _is_held(self, unit: str) -> bool:
        pid = self.host.unit(unit).pid
        return pid != 0 and "State:\tT" in self.host.run("cat", f"/proc/{pid}/status", status=None)

    def power_cut(self) -> None:
        self.host.power_cut()
        self.host.power_on()
        self.host.booted()
