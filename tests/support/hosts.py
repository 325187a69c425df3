"""A bed of booted hosts: systemd machines with the agent's package installed, and a real control plane they dial.

    @pytest.fixture(scope="module")
    def bed() -> Iterator[Bed]:
        with open_hosts(4) as made:
            yield made

    pytestmark = [pytest.mark.real, pytest.mark.xdist_group("machines")]

What there is
    bed.house                   the control plane and its administrator, as everywhere (`support.house`): submit,
                                finished, receipts, node, cli, kill("control"), serve()
    bed["n1"], bed.names        the hosts, n1 n2 ..., each a node of that name
    bed.address                 this machine's on their bridge: serve there what they are to fetch, such as by
                                `support.archive.Archive(directory, bed.address)`
    bed.front                   what the hosts dial instead of the control plane
    bed.noop("n1", ...)         runs an operation on these and expects it done: in service is what that shows
    bed.until_in_service(...)   waits for the units and the control plane's view
    bed.throttle("n1", busy=Busy(status="UNAVAILABLE", error_code="", retry_after_s=3)), bed.through("n1")
                                a control plane too busy for these, or for all; bed.refused("n1") says when it was
    bed.stall("n1"), bed.flow("n1")
                                its connections stay open and carry nothing for a while
    bed.mute("n1")              it is told everything, and nobody hears what it says until `flow` or `through`
    bed.enrol(host)             for a host made with open_hosts(..., enrol=False)
    support.delivery            releases that this control plane serves to them; support.host_fleet: rollouts over them

    host = bed["n1"]
    host.run("systemctl", ...)  a command inside; what it says
    host.put(path, content), host.read(path), host.exists(path), host.path(path)
    host.journal("-u", AGENT)   since it booted
    host.unit(AGENT)            Unit(active, restarts, pid); `host.shows("StatusText")` for any other property
    host.signal(SIGKILL), host.drop_in("[Service]\nWatchdogSec=3\n")
    host.reboot()               as an operator would; back when systemd has started everything
    host.power_cut()            nothing that was not synced is on its disk afterwards; host.power_on(), host.booted()
    host.power_off()            in order
    host.cut(), host.restore()  its cable
    host.until(condition, what)

How it is made
    The package is built once a run and installed once, as an image is made; every host lies over that with a disk of
    its own, a file with ext4 on a loop device. An upgrade in a host is `dpkg -i`, or whatever a test does;
    `support.agent_packages` has packages of other versions, good and bad.
    Enrolment is the agent's own at its first start, from /etc/hostler/enrol.token.
    Machines, mounts and loop devices end with this process however it ends. The bridge and the directory of a killed
    run are removed by the next. Any number of runs may go on at once (`support.places`).

What is not as on a real host
    Limits of memory and processes are not enforced (the controllers are read-only inside). The kernel and its clock
    are this machine's. What the loop device has handed to the file of its disk counts as synced.
"""

import functools
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from conftest import need, need_root
from hostler.cli.demo_files import program
from support.debs import BOOKWORM, built
from support.front import ENROL, NODE, Busy, Front
from support.host import AGENT, SESSION, Host, Unit
from support.house import ORG, PROJECT, House, open_house
from support.machines import debian_tree
from support.places import Place, kept, place

__all__ = ["AGENT", "SESSION", "Bed", "Busy", "Host", "Unit", "open_hosts"]

PROGRAMS = ("debootstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "git", "ip", "mkfs.ext4", "losetup", "setpriv")
AGENT_PACKAGE = "hostler-agent"
NOOP = "node.smoke.noop@v1"
CONTAINERS = '\n[containers]\nruntime = "process"\nallow_process = true\n'
INSTALL = """set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cp "$3" "$2/root/agent.deb"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$2/root" dpkg -i /agent.deb
rm "$2/root/agent.deb"
"""


@functools.cache
def installed_tree(suite: str) -> tuple[Path, Path]:
    """Layers for an overlay, the upper one first: a machine on which the package was installed but never started."""
    made, base = kept(), debian_tree(suite)
    for part in ("upper", "work", "root"):
        (made / part).mkdir()
    script = ["/bin/sh", "-c", INSTALL, "install", str(base), str(made), str(built(AGENT_PACKAGE, suite=suite))]
    command = ["unshare", "--mount", "--propagation=private", *script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made / "upper", base


class Bed:
    """See the module. Hosts are n1, n2, ... in order."""

    def __init__(
        self, house: House, front: Front, at: Place, count: int, labels: Mapping[str, dict[str, str]], suite: str
    ) -> None:
        self.house, self.front, self.address, self._labels, self.suite = house, front, at.address, labels, suite
        self.hosts = {f"n{i + 1}": Host(at, i, f"n{i + 1}", installed_tree(suite), suite) for i in range(count)}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.hosts)

    def make(self, host: Host, settings: str, *, enrol: bool) -> None:
        """Its disk. `settings`: the end of its agent.toml."""
        upper, _ = installed_tree(self.suite)
        toml = (upper / "etc/hostler/agent.toml").read_text()
        for port in (NODE, ENROL):
            toml = toml.replace(f"control.example.com:{port}", f"{self.address}:{port}")
        files = {"/etc/hostler/agent.toml": toml + settings, "/etc/hostler/trust.json": self._trust()}
        host.make(files | ({"/etc/hostler/enrol.token": self.token(host)} if enrol else {}))

    def token(self, host: Host) -> str:
        labels = self._labels.get(host.name, {})
        body = {"node_name": host.name, "org_id": ORG, "project_id": PROJECT, "labels": labels}
        made: str = self.house.client.call("POST", "/api/v1/admin/enrolment-tokens", body=body)["token"]
        return made

    def enrol(self, host: Host) -> None:
        """Gives a running host its token; it enrols by itself."""
        host.put("/etc/hostler/enrol.token", self.token(host), 0o600)

    def _trust(self) -> str:
        return (self.house.home / "pki/trust.json").read_text()

    # -- service ------------------------------------------------------------------------------------------------------

    def until_in_service(self, *names: str) -> None:
        """Waits until both units of each run and the control plane has its session; all hosts unless some are named."""
        for name in names or self.names:
            host = self[name]
            host.until(lambda host=host: self._in_service(host), "it is not in service")  # type: ignore[misc]

    def _in_service(self, host: Host) -> bool:
        up = all(host.unit(unit).active == "active" for unit in (AGENT, SESSION))
        return up and self.known(host) and self.house.node(host.name)["connection"] == "connected"

    def known(self, host: Host) -> bool:
        """Whether it has enrolled."""
        return any(node["name"] == host.name for node in self.house.client.pages("/api/v1/admin/nodes"))

    def noop(self, *names: str) -> None:
        """One operation over these, or all."""
        operation = self.house.finished(self.house.submit(NOOP, nodes=names or self.names))
        assert operation["status"] == "succeeded", operation

    def until(self, there: Callable[[], bool], what: str, limit_s: float = 40.0) -> None:
        end = time.monotonic() + limit_s
        while not there():
            assert time.monotonic() < end, f"{what}\n{self.house.logs()}"
            time.sleep(0.05)

    # -- a busy control plane -----------------------------------------------------------------------------------------

    def throttle(self, *names: str, busy: Busy | None = None) -> None:
        """Answers these, or all, in the control plane's place that it is too busy."""
        self.front.throttle(*self._addresses(names), busy=busy)

    def through(self, *names: str) -> None:
        self.front.through(*self._addresses(names))

    def stall(self, *names: str) -> None:
        """Keeps back what these, or all, say and are told."""
        self.front.stall(*self._addresses(names))

    def mute(self, *names: str) -> None:
        """Keeps back what these, or all, say."""
        self.front.mute(*self._addresses(names))

    def flow(self, *names: str) -> None:
        self.front.flow(*self._addresses(names))

    def refused(self, name: str) -> list[float]:
        """When sessions of this host were answered so: `time.monotonic` of each."""
        return self.front.refused[self[name].address]

    def _addresses(self, names: Sequence[str]) -> list[str]:
        return [self[name].address for name in names or self.names]


@contextmanager
def open_hosts(
    count: int,
    *,
    enrol: bool = True,
    settings: str = CONTAINERS,
    definitions: Sequence[Any] = (),
    commands: Sequence[Any] = (),
    minters: Callable[[Path], str] = lambda home: "",
    labels: Mapping[str, dict[str, str]] = MappingProxyType({}),
    suite: str = BOOKWORM,
) -> Iterator[Bed]:
    """Boots the hosts, and waits until all are in service unless they are not to `enrol`.

    Args:
        settings: the end of every agent.toml.
        definitions, commands, minters: as `support.house.open_house` has them.
        labels: of the nodes, by name.
        suite: the Debian release that the hosts are of.
    """
    need(*PROGRAMS)
    need_root()
    with ExitStack() as stack:
        beside = stack.enter_context(ThreadPoolExecutor(1))
        making = beside.submit(installed_tree, suite)
        house = stack.enter_context(open_house(definitions, commands, _tied, minters))
        house.serve()
        making.result()
        at = stack.enter_context(place())
        front = stack.enter_context(Front(at.address, house.ports, house.home / "pki/control"))
        bed = Bed(house, front, at, count, labels, suite)
        for host in bed.hosts.values():
            bed.make(host, settings, enrol=enrol)
        try:
            for host in bed.hosts.values():
                host.power_on()
            for host in bed.hosts.values():
                host.booted()
            if enrol:
                bed.until_in_service()
            yield bed
        finally:
            for host in bed.hosts.values():
                host.destroy()


def _tied(name: str) -> list[str]:
    """A program of ours that ends with this process."""
    return ["setpriv", "--pdeathsig=TERM", program(name)]
