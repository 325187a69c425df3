"""Control groups of containers, of either version: where one is, and the limits and counters that stand in it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from hostler.agent.containers.spec import Limits

ROOT = Path("/sys/fs/cgroup")
HOUSE = "hostler"
_KILL_ROUNDS = 100


def unified(root: Path = ROOT) -> bool:
    """Whether the node has version 2 alone. With both, the controllers are those of version 1."""
    return (root / "cgroup.controllers").exists()


def directory(membership: str, controller: str, root: Path = ROOT) -> Path | None:
    """Of one controller, by the text of `/proc/PID/cgroup`; None where it is not mounted."""
    for line in membership.splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            found = root / controller / path.lstrip("/")
            return found if found.is_dir() else None
    whole = [line[3:] for line in membership.splitlines() if line.startswith("0::")]
    found = root / whole[0].lstrip("/") if whole else root
    return found if whole and unified(root) and found.is_dir() else None


def of_process(pid: int, controller: str) -> Path | None:
    try:
        return directory(Path(f"/proc/{pid}/cgroup").read_text(), controller)
    except (OSError, ValueError):
        return None


def limit_pids(pid: int, most: int) -> None:
    """For runtimes that have no word for it. A process that has ended needs none."""
    group = of_process(pid, "pids") if most and pid else None
    if group is not None:
        with contextlib.suppress(OSError):
            (group / "pids.max").write_text(str(most))


def processes(group: Path) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from map(int, (group / "cgroup.procs").read_text().split())


class Fenced:
    """The groups of one container that no engine makes any for. Without the right to make them there are none.

    They stand at the top and not below the agent's own, so that they outlive it, and so that version 2, which allows
    no processes beside groups with controllers, can be used at all.
    """

    def __init__(self, name: str, root: Path = ROOT) -> None:
        self._root = root
        self._name = f"{HOUSE}/{name}"

    def make(self, limits: Limits) -> list[Path]:
        """Groups to be joined by writing to their `cgroup.procs`."""
        made = [group for group in map(self._made, _controllers(self._root)) if group is not None]
        for group in made:
            for file, value in _written(limits):
                with contextlib.suppress(OSError):
                    if (group / file).exists():
                        (group / file).write_text(value)
        return made

    def paths(self) -> list[Path]:
        found = [self._path(controller) for controller in _controllers(self._root)]
        return list(dict.fromkeys(path for path in found if path.is_dir()))

    def number(self, *files: str) -> int:
        """The first of these counters that is there; 0 for none."""
        for path in (group / file for group in self.paths() for file in files):
            with contextlib.suppress(OSError, ValueError):
                return int(path.read_text())
        return 0

    def field(self, file: str, key: str) -> int:
        for path in (group / file for group in self.paths()):
            with contextlib.suppress(OSError, ValueError):
                words = dict(line.split()[:2] for line in path.read_text().splitlines())
                if key in words:
                    return int(words[key])
        return 0

    def kill(self) -> None:
        """SIGKILL to all that is in them. Version 1 has no such word: one by one, as long as new ones come."""
        for group in self.paths():
            with contextlib.suppress(OSError):
                (group / "cgroup.kill").write_text("1")
                continue
            for _ in range(_KILL_ROUNDS):
                found = list(processes(group))
                for pid in found:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                if not found:
                    break

    def remove(self) -> None:
        for group in self.paths():
            with contextlib.suppress(OSError):
                group.rmdir()

    def _made(self, controller: str) -> Path | None:
        group = self._path(controller)
        try:
            group.parent.mkdir(exist_ok=True)
            if not controller:
                for directory in (self._root, group.parent):
                    (directory / "cgroup.subtree_control").write_text("+cpu +memory +pids")
            group.mkdir(exist_ok=True)
        except OSError:
            return None
        return group

    def _path(self, controller: str) -> Path:
        return self._root / controller / self._name


def leave_service(pid: int, root: Path = ROOT) -> None:
    """Out of the agent's own group, which systemd ends with it."""
    for tree in ("", "systemd", "unified"):
        group = root / tree / HOUSE / ".supervisors"
        with contextlib.suppress(OSError):
            if (root / tree / "cgroup.procs").exists():
                group.mkdir(parents=True, exist_ok=True)
                (group / "cgroup.procs").write_text(str(pid))


def _controllers(root: Path) -> list[str]:
    """Directories below the root; "" is the only one of version 2."""
    return [""] if unified(root) else ["memory", "pids", "cpu", "cpuacct"]


def _written(limits: Limits) -> Iterator[tuple[str, str]]:
    if limits.memory_bytes:
        yield from ((name, str(limits.memory_bytes)) for name in ("memory.limit_in_bytes", "memory.max"))
        yield from (("memory.memsw.limit_in_bytes", str(limits.memory_bytes)), ("memory.swap.max", "0"))
    if limits.pids:
        yield "pids.max", str(limits.pids)
    if limits.cpu_millis:
        quota = max(1000, limits.cpu_millis * 100)
        yield from (("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", str(quota)), ("cpu.max", f"{quota} 100000"))
