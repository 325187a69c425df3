"""Booted systemd machines: `systemd-nspawn` on an overlay of a debootstrap tree, one for each Debian release.

A tree is made once and kept in $HOSTLER_TEST_CACHE (else ~/.cache/hostler-tests). Its packages come
from wherever this machine's own apt gets them.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from support import control_groups

INCLUDE = "systemd,systemd-sysv,dbus,python3"
BOOT_SECONDS = 60.0
BOOT = (
    "--boot", "--register=no", "--keep-unit", "--kill-signal=SIGRTMIN+3", "--console=pipe",
    # what a machine of its own has: commands of steps are confined by Landlock
    "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
)  # fmt: skip
OLD_GROUPS = {"bookworm"}  # suites whose systemd still boots on version 1 of control groups


@dataclass(frozen=True)
class Machine:
    """`leader` is its first process as this machine numbers it."""

    leader: int

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.leader}/root")

    def run(self, *argv: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """A command inside."""
        enter = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
        return subprocess.run(
            [*enter, "env", "-i", path, *argv], capture_output=True, text=True, check=False, timeout=timeout_s
        )


def mirror() -> tuple[str, str]:
    """Address and suite of the archive that apt uses here, and no other."""
    listing = subprocess.run(["apt-cache", "policy"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\s+-?\d+ (https?://\S+) ([a-z]+)/main ", listing, re.MULTILINE)
    if not rows:
        raise AssertionError("apt knows no archive with a main section; see 'apt-cache policy'")
    address, suite = rows[0]
    return str(address).rstrip("/"), str(suite)


def debian_tree(suite: str) -> Path:
    """A minimal Debian of that release, which all machines share: never written to after it was made."""
    place = os.environ.get("HOSTLER_TEST_CACHE")
    cache = Path(place) if place else Path.home() / ".cache/hostler-tests"
    cache.mkdir(parents=True, exist_ok=True)
    tree = cache / f"machine-{suite}-python"
    with (cache / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of one run need it at the same time
        if not tree.exists():
            making = cache / f"making-{suite}"
            shutil.rmtree(making, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", f"--include={INCLUDE}", suite, str(making), mirror()[0]]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=proxied())
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            making.rename(tree)
    return tree


def proxied() -> dict[str, str]:
    """debootstrap does not read apt's settings."""
    asked = ["apt-config", "shell", "P", "Acquire::http::Proxy"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    match = re.search(r"P='([^']+)'", said)
    return dict(os.environ) | ({"http_proxy": match[1]} if match else {})


def hierarchy(suite: str) -> dict[str, str]:
    """The environment of systemd-nspawn: what it gives a machine of that release for control groups.

    Version 2 alone for a systemd that refuses anything else (256 and later), as a host of that release has it; on a
    machine with version 1 it is one without controllers. The others get what this machine has.
    """
    return {} if suite in OLD_GROUPS else {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}


@contextmanager
def machine(
    directory: Path, name: str, files: Mapping[str, str], *, own_network: bool = True, suite: str = ""
) -> Iterator[Machine]:
    """Boots one with `files` laid over the tree; gone without a trace afterwards.

    Without a network of its own it reaches what listens on this machine's loopback. `suite`: "" for this machine's own.
    """
    suite = suite or mirror()[1]
    network = ("--private-network",) if own_network else ()
    _lay_over(directory / "upper", {"/etc/hostname": name + "\n"} | dict(files))
    with (
        _overlay(directory, debian_tree(suite)) as root,
        _running(directory, root, name, *network, environment=hierarchy(suite)) as found,
    ):
        yield found


HERE_TARGET = """[Unit]
Requires=sysinit.target dbus.socket
After=sysinit.target dbus.socket
AllowIsolate=yes
"""


@contextmanager
def machine_of_this(
    directory: Path, name: str, files: Mapping[str, str], binds: Mapping[Path, str] | None = None
) -> Iterator[Machine]:
    """Boots one whose tree is this machine's own, read-only under an overlay, and whose network is this one's.

    For components that are installed here and speak over loopback. Nothing starts in it but systemd and D-Bus.
    What is written goes to memory. `binds`: folders of this machine, read-only, by their place inside.
    """
    memory = directory / "memory"
    memory.mkdir(parents=True)
    # an upper folder within the lower tree would be refused
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(memory)], check=True)
    try:
        target = "hostler-test.target"
        over = {"/etc/hostname": name + "\n", f"/etc/systemd/system/{target}": HERE_TARGET} | dict(files)
        _lay_over(memory / "upper", over)
        options = [f"--bind-ro={source}:{place}" for source, place in (binds or {}).items()]
        with _overlay(memory, Path("/")) as root, _running(memory, root, name, *options, unit=target) as found:
            yield found
    finally:
        subprocess.run(["umount", str(memory)], check=True)


def _lay_over(upper: Path, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        target = upper / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


@contextmanager
def _overlay(directory: Path, lower: Path) -> Iterator[Path]:
    root, upper, work = (directory / part for part in ("root", "upper", "work"))
    for made in (root, upper, work):
        made.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", str(root)], check=True)


@contextmanager
def _running(
    directory: Path,
    root: Path,
    name: str,
    *options: str,
    unit: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Machine]:
    process: subprocess.Popen[bytes] | None = None
    group = f"hostler-machines/{os.getpid()}-{name}"
    try:
        command = ["systemd-nspawn", "-q", "-D", str(root), "-M", name, *options, *BOOT]
        command += [f"systemd.unit={unit}"] if unit else []
        with (directory / "console.log").open("wb") as console:
            process = subprocess.Popen(
                control_groups.joined(group, command), env=os.environ | dict(environment),
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            )  # fmt: skip
        yield _booted(process, directory / "console.log")
    finally:
        if process is not None:
            _stop(process)
        control_groups.remove(group)


def _booted(process: "subprocess.Popen[bytes]", console: Path) -> Machine:
    until = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        leader = _leader(process.pid)
        if leader:
            found = Machine(leader)
            state = found.run("systemctl", "is-system-running").stdout.strip()
            if state in ("running", "degraded"):
                return found
        time.sleep(0.05)
    raise AssertionError("the machine did not boot:\n" + console.read_text(errors="replace")[-3000:])


def _leader(pid: int) -> int:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def _stop(process: "subprocess.Popen[bytes]") -> None:
    leader = _leader(process.pid)
    if leader:
        os.kill(leader, signal.SIGRTMIN + 3)  # an orderly power-off
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
