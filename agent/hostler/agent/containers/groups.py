"""Control groups of containers, of either version: where one is, and the limits and counters that stand in it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


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
