"""What a container without an engine uses: by its control groups, and by its processes where it has none."""

import contextlib
import os
from pathlib import Path

from hostler.agent.containers.groups import Fenced, processes
from hostler.agent.containers.runtime import Stats

_NANOS_A_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def measure(groups: Fenced, main: int, scratch: Path) -> Stats:
    disk = _size(scratch)
    if not groups.paths():
        return _by_processes(main, disk)
    memory = groups.number("memory.usage_in_bytes", "memory.current")
    idle = groups.field("memory.stat", "total_inactive_file") or groups.field("memory.stat", "inactive_file")
    cpu = groups.number("cpuacct.usage") or groups.field("cpu.stat", "usage_usec") * 1000
    pids = len({pid for path in groups.paths() for pid in processes(path)})
    return Stats(cpu_nanos=cpu, memory_bytes=max(0, memory - idle), disk_bytes=disk, pids=pids)


def _by_processes(main: int, disk: int) -> Stats:
    """The first one and all below it; what those used that have ended is counted with their parents."""
    ticks = pages = count = 0
    parents = {int(path.name): _fields(path) for path in Path("/proc").glob("[0-9]*")}
    wanted, grown = {main}, True
    while grown:
        below = {pid for pid, fields in parents.items() if fields and int(fields[1]) in wanted} - wanted
        wanted |= below
        grown = bool(below)
    for pid in wanted:
        if fields := parents.get(pid):
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
            count += 1
    return Stats(cpu_nanos=ticks * _NANOS_A_TICK, memory_bytes=pages * _PAGE, disk_bytes=disk, pids=count)


def _fields(path: Path) -> list[bytes]:
    """Of `stat`, from the state on."""
    try:
        return (path / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def _size(place: Path) -> int:
    total = 0
    for folder, _, files in os.walk(place):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
    return total
