"""Places for beds of hosts: a bridge, a subnet and a directory, one process's own for as long as it lives.

A place is held by a lock on a file, so it is free again however its process ends; whoever takes it next removes what
the one before has left.
"""

import atexit
import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from support import control_groups

HELD = Path("/var/tmp/hostler-hosts")  # a disk: an overlay's upper layer and images of disks lie here
MOST = 100


@dataclass(frozen=True)
class Place:
    """The subnet is of those set aside for bench tests (RFC 2544), which lead nowhere."""

    number: int

    @property
    def directory(self) -> Path:
        return HELD / str(self.number)

    @property
    def group(self) -> str:
        """The control group of its hosts."""
        return f"hostler-hosts/{self.number}"

    @property
    def bridge(self) -> str:
        return f"hbr{self.number}"

    @property
    def address(self) -> str:
        """This machine's on the bridge."""
        return f"198.18.{self.number}.1"

    def address_of(self, index: int) -> str:
        return f"198.18.{self.number}.{11 + index}"

    def machine(self, index: int) -> str:
        """A name that no other machine has; systemd-nspawn names an interface by it."""
        return f"h{self.number}-{index}"

    def link(self, index: int) -> str:
        """This machine's end of the cable."""
        return f"vb-{self.machine(index)}"


@contextmanager
def place() -> Iterator[Place]:
    """A free one, with its bridge up; removed afterwards."""
    HELD.mkdir(mode=0o755, exist_ok=True)
    for number in range(MOST):
        with (HELD / f"{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            found = Place(number)
            _clear(found)
            try:
                _make(found)
                yield found
            finally:
                _clear(found)
            return
    raise AssertionError(f"all {MOST} places for hosts are taken; see {HELD}")


_kept: list[IO[str]] = []  # locks, held until this process ends


def kept() -> Path:
    """A directory until this process ends; those of killed runs are removed."""
    HELD.mkdir(mode=0o755, exist_ok=True)
    with (HELD / "kept.lock").open("w") as sweeping:
        fcntl.flock(sweeping, fcntl.LOCK_EX)
        for lock in HELD.glob("kept-*/lock"):
            with suppress(BlockingIOError, FileNotFoundError), lock.open("r+") as held:  # another one may just end
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix="kept-", dir=HELD))
        _kept.append((made / "lock").open("w"))
        fcntl.flock(_kept[-1], fcntl.LOCK_EX)
    made.chmod(0o755)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)


def _make(found: Place) -> None:
    found.directory.mkdir()
    ip("link", "add", found.bridge, "type", "bridge")
    ip("address", "add", f"{found.address}/24", "dev", found.bridge)
    ip("link", "set", found.bridge, "up")


def _clear(found: Place) -> None:
    subprocess.run(["ip", "link", "delete", found.bridge], capture_output=True, check=False)
    control_groups.remove(found.group)
    if found.directory.exists():
        shutil.rmtree(found.directory)
