"""One booted host of a bed: its power, its disk, its cable, its units. See `hosts`.

Its disk is a file system of its own in a file, with the tree that all hosts share below it. All mounts are made in a
mount namespace that ends with the machine, and the machine ends with the process that booted it.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.control_groups import joined
from support.machines import BOOT, Machine, hierarchy
from support.places import Place, ip

AGENT, SESSION = "hostler-agent.service", "hostler-session.service"
LIMIT_S = 40.0
END_S = 40.0  # units have 30 s to stop
SECRET = (".token", "/user-data")
DISK = "2G"  # at most; it takes what is written

START = """set -e
mount -o loop,noatime "$1/image" "$1/disk"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/disk/upper,workdir=$1/disk/work" "$1/root"
name=$3
directory=$1
shift 3
exec systemd-nspawn -q -D "$directory/root" -M "$name" "$@"
"""
CABLE = "[Match]\nName=host0\n[Network]\nAddress={own}/24\nGateway={gateway}\nLinkLocalAddressing=no\n"
SHUT_DOWN, NO_LOG_FLUSH = 0x8004587D, 2  # the ioctl by which file systems are tested against power cuts


@dataclass(frozen=True)
class Unit:
    """
    Attributes:
        active: systemd's ActiveState.
        restarts: how often systemd has started it again by itself.
        pid: of its main process, as the host numbers it; 0 for none.
    """

    active: str
    restarts: int
    pid: int


class Host:
    """`name` is its host name and its node's name; `suite` is the Debian that its tree is of."""

    def __init__(self, place: Place, index: int, name: str, lower: Sequence[Path], suite: str) -> None:
        self.name, self.address = name, place.address_of(index)
        self.directory = place.directory / name
        self._place, self._index, self._lower, self._suite = place, index, lower, suite
        self._process: subprocess.Popen[bytes] | None = None

    # -- power --------------------------------------------------------------------------------------------------------

    def make(self, files: Mapping[str, str]) -> None:
        """Its disk, with `files` on it, for root alone those that are named in `SECRET`; it does not run yet."""
        fresh = self.directory / "fresh"
        for each in (fresh / "upper", fresh / "work", self.directory / "disk", self.directory / "root"):
            each.mkdir(parents=True)
        cable = CABLE.format(own=self.address, gateway=self._place.address)
        own = {"/etc/hostname": self.name, "/etc/machine-id": uuid.uuid4().hex}
        cabled = {"/etc/systemd/network/10-host0.network": cable}
        for path, content in (own | cabled | dict(files)).items():
            target = fresh / "upper" / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content + "\n" * (not content.endswith("\n")))
            target.chmod(0o600 if path.endswith(SECRET) else 0o644)
        wanted = fresh / "upper/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.symlink_to("/lib/systemd/system/systemd-networkd.service")
        command = ["mkfs.ext4", "-q", "-E", "root_owner=0:0", "-d", str(fresh), str(self.directory / "image"), DISK]
        subprocess.run(command, check=True, capture_output=True)
        shutil.rmtree(fresh)

    def reinstall(self, lower: Sequence[Path], files: Mapping[str, str]) -> None:
        """A fresh disk over another tree, while it is off; nothing of before is left."""
        assert self._process is None, f"{self.name} runs"
        shutil.rmtree(self.directory)
        self._lower = lower
        self.make(files)

    def power_on(self) -> None:
        """Starts to boot; `booted` waits for the end of it."""
        assert self._process is None, f"{self.name} runs already"
        options = [f"--network-bridge={self._place.bridge}", f"--hostname={self.name}", *BOOT]
        script = ["/bin/sh", "-c", START, "start", str(self.directory), ":".join(map(str, self._lower))]
        # whatever ends this process: its machines end with it, by the first process of a namespace around each
        spaces = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--mount-proc", "--kill-child"]
        command = ["setpriv", "--pdeathsig=KILL", *spaces, *script, self._place.machine(self._index), *options]
        with self.console.open("ab") as console:
            self._process = subprocess.Popen(
                joined(f"{self._place.group}/{self._index}", command), env=os.environ | hierarchy(self._suite),
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            )  # fmt: skip

    def booted(self) -> None:
        """Waits until systemd has started everything."""

        def up() -> bool:
            assert self._process is not None, f"{self.name} is off"
            assert self._process.poll() is None, f"{self.name} ended:\n{self._tail()}"
            return self.leader != 0 and self._said("systemctl", "is-system-running") in ("running", "degraded")

        self.until(up, "it did not boot")

    def power_off(self) -> None:
        """In order: every unit is stopped, the disk is synced."""
        self._end(signal.SIGRTMIN + 3)

    def power_cut(self) -> None:
        """The cable first, then the disk, then every process: nothing that was not synced is on the disk afterwards."""
        assert self._process is not None, f"{self.name} does not run"
        self.cut()
        disk = os.open(f"/proc/{self._process.pid}/root{self.directory}/disk", os.O_RDONLY)
        try:
            fcntl.ioctl(disk, SHUT_DOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(disk)
        self._end(signal.SIGKILL)

    def destroy(self) -> None:
        """At once, and for good."""
        self._end(signal.SIGKILL)

    def reboot(self) -> None:
        """As its operator would; returns when it has booted again."""
        assert self._process is not None, f"{self.name} does not run"
        self.run("systemctl", "reboot")
        self._end(None)
        self.power_on()
        self.booted()

    def _end(self, number: int | None) -> None:
        """Sends a signal to its first process, and waits until nothing of it is left."""
        process, self._process = self._process, None
        if process is None:
            return
        leader = _child(_child(process.pid))
        with suppress(ProcessLookupError):
            if number is not None:
                os.kill(leader or process.pid, number)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.until(self._unmounted, "its disk is still in use")

    def _unmounted(self) -> bool:
        command = ["losetup", "-j", str(self.directory / "image")]
        return not subprocess.run(command, capture_output=True, text=True, check=True).stdout

    # -- network ------------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Pulls its cable."""
        ip("link", "set", self._place.link(self._index), "down")

    def restore(self) -> None:
        ip("link", "set", self._place.link(self._index), "up")

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> int:
        """Its first process, as this machine numbers it; 0 while there is none."""
        return _child(_child(self._process.pid)) if self._process is not None else 0

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    def run(self, *argv: str, status: int | None = 0, timeout_s: float = 60) -> str:
        """What a command inside says. `status`: what it must end with; None for whatever."""
        done = Machine(self.leader).run(*argv, timeout_s=timeout_s)
        if status is not None:
            assert done.returncode == status, (self.name, argv, done.returncode, done.stdout, done.stderr, self._tail())
        return done.stdout

    def path(self, place: str) -> Path:
        """A file of the running host, as this machine reaches it. Links that begin with / lead astray."""
        return Path(f"/proc/{self.leader}/root") / place.lstrip("/")

    def put(self, place: str, content: str | bytes | Path, mode: int = 0o644) -> None:
        """Writes a file of the host, or copies one of this machine there."""
        target = self.path(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, target)
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)

    def read(self, place: str) -> str:
        return self.path(place).read_text()

    def exists(self, place: str) -> bool:
        return os.path.lexists(self.path(place))

    def unit(self, name: str = AGENT) -> Unit:
        said = self.run("systemctl", "show", "-p", "ActiveState,NRestarts,MainPID", name)
        told = dict(line.partition("=")[::2] for line in said.splitlines())
        return Unit(told["ActiveState"], int(told["NRestarts"]), int(told["MainPID"]))

    def shows(self, what: str, name: str = AGENT) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "-P", what, name).strip()

    def signal(self, number: int, name: str = AGENT) -> None:
        """To the main process of a unit, such as SIGKILL."""
        self.run("systemctl", "kill", "--kill-whom=main", f"--signal={number:d}", name)

    def drop_in(self, text: str, name: str = AGENT) -> None:
        """Overrides a unit's settings; what runs is not restarted."""
        self.put(f"/etc/systemd/system/{name}.d/test.conf", text)
        self.run("systemctl", "daemon-reload")

    def journal(self, *words: str) -> str:
        """Since it booted; `words` for journalctl, such as -u UNIT."""
        return self.run("journalctl", "-q", "--no-pager", "-o", "short-precise", *words)

    def until(self, there: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
        """Waits for a state; says what the host logged when it does not come."""
        end = time.monotonic() + limit_s
        while not there():
            assert time.monotonic() < end, f"{self.name}: {what}\n{self._tail()}"
            time.sleep(0.05)

    def _said(self, *argv: str) -> str:
        return Machine(self.leader).run(*argv).stdout.strip()

    def _tail(self) -> str:
        journal = Machine(self.leader).run("journalctl", "-q", "--no-pager", "-n", "40").stdout if self.leader else ""
        console = self.console.read_text(errors="replace") if self.console.exists() else ""
        return f"{console[-1500:]}\n{journal[-6000:]}"


def _child(pid: int) -> int:
    if not pid:
        return 0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0
