"""What the threads below a process do: read from /proc, a little at a time, without touching them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST_THREADS = 4096
_TICKS = os.sysconf("SC_CLK_TCK")


class Thread(NamedTuple):
    """`waits_in` is a kernel function, "" for one that runs or where the kernel does not tell."""

    pid: int
    tid: int
    name: str
    state: str
    cpu_ms: int
    waits_in: str


class Memory(NamedTuple):
    """Bytes: resident, of which shared with files or others, and swapped out."""

    pid: int
    name: str
    resident: int
    shared: int
    swapped: int


class Sampling:
    """Args:
    root: of the node; one without /proc is a directory of this machine, and its tasks are processes here.
    """

    def __init__(self, root: Path) -> None:
        there = root / "proc"
        self._proc = there if there.exists() else Path("/proc")

    def tree(self, pid: int) -> list[int]:
        """The process and everything below it, as it is now."""
        found, waiting = list[int](), [pid]
        while waiting and len(found) < MOST_THREADS:
            one = waiting.pop()
            found.append(one)
            with suppress(OSError):
                for task in (self._proc / str(one) / "task").iterdir():
                    with suppress(OSError):
                        waiting += [int(child) for child in (task / "children").read_text().split()]
        return found

    def threads(self, pid: int) -> list[Thread]:
        """Those of the whole tree, as many as may be looked at."""
        found: list[Thread] = []
        for process in self.tree(pid):
            for thread in self._threads(process):
                found.append(thread)
                if len(found) == MOST_THREADS:
                    return found
        return found

    def memory(self, pid: int) -> list[Memory]:
        found: list[Memory] = []
        for process in self.tree(pid):
            with suppress(OSError, ValueError, IndexError):
                said = _status(self._proc / str(process) / "status")
                shared = _kib(said, "RssFile") + _kib(said, "RssShmem")
                name = said.get("Name", "")
                found.append(Memory(process, name, _kib(said, "VmRSS"), shared, _kib(said, "VmSwap")))
        return found

    def _threads(self, process: int) -> Iterator[Thread]:
        """A thread that ends while it is looked at is no longer there."""
        with suppress(OSError):
            for place in (self._proc / str(process) / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    head, _, rest = (place / "stat").read_text(errors="replace").rpartition(")")
                    fields = rest.split()
                    cpu_ms = (int(fields[11]) + int(fields[12])) * 1000 // _TICKS
                    yield Thread(process, int(place.name), head.partition("(")[2], fields[0], cpu_ms, _waits_in(place))


def _waits_in(place: Path) -> str:
    with suppress(OSError):
        said = (place / "wchan").read_text().strip()
        return "" if said == "0" else said[:64]
    return ""


def _status(path: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in path.read_text(errors="replace").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _kib(said: dict[str, str], name: str) -> int:
    return int(said.get(name, "0 kB").split()[0]) * 1024
