"""How much there is of processors, memory and disk: totals, and what a control group leaves of them. 0 is unknown."""

import os
from pathlib import Path

from hostler.agent.hardware.tree import number, read

_GROUP = "sys/fs/cgroup"


def cpu_millis(root: Path) -> int:
    """Thousandths of a core that this process may use: where the agent is confined, so is what it runs."""
    here = len(os.sched_getaffinity(0)) * 1000
    quota, _, period = read(root / _GROUP / "cpu.max", 64).partition(" ")
    if number(quota) > 0 and number(period) > 0:
        return min(here, number(quota) * 1000 // number(period))
    return here


def memory_bytes(root: Path) -> int:
    """Of this machine, wherever the root is that steps work below: what runs in containers runs here."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = number(read(root / _GROUP / "memory.max", 64))
    return min(total, most) if most > 0 else total


def disk_bytes(root: Path, folder: str) -> int:
    """Of the file system that scratch space is on."""
    for path in (root / (folder or "/var/lib/hostler").lstrip("/"), root / "var/lib", root):
        try:
            found = os.statvfs(path)
        except OSError:
            continue
        return found.f_blocks * found.f_frsize
    return 0
