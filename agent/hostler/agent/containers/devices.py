"""Whether a running container still has the devices it was given (K8).

A driver that is loaded again makes its nodes anew, often under other numbers; `systemctl daemon-reload` writes the
device rules of control groups anew, and forgets those that it does not know. Both leave the program running with a
device that no longer answers.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from hostler.agent.containers import groups

_PROC = Path("/proc")


def lost(pid: int, nodes: Sequence[str], root: Path = Path("/")) -> dict[str, str]:
    """Node → what became of it, for those that are gone. Nothing where the process has ended.

    Under control groups of version 2 the rules are a program in the kernel that cannot be read: there only the nodes
    themselves are compared.

    Args:
        pid: the container's first process.
        nodes: as it was given them, the same path inside.
        root: of the node, for tests.
    """
    inside = _PROC / str(pid) / "root"
    if not (_PROC / str(pid)).exists():
        return {}
    allowed = _rules(pid)
    found = {node: _fault(root / node.lstrip("/"), inside / node.lstrip("/"), allowed) for node in nodes}
    return {node: fault for node, fault in found.items() if fault} if (_PROC / str(pid)).exists() else {}


def _fault(outside: Path, inside: Path, allowed: list[str] | None) -> str:
    ours, its = _device(outside), _device(inside)
    if ours is None:
        return "the node has no such device any more"
    if its is None:
        return "the container has no such device any more"
    if ours != its:
        return "the node has made the device anew, the container holds the old one"
    if allowed is not None and not any(_allows(rule, its) for rule in allowed):
        return "the control group does not let the container use it any more"
    return ""


def _device(path: Path) -> tuple[str, int, int] | None:
    try:
        said = path.lstat()
    except OSError:
        return None
    kind = "c" if stat.S_ISCHR(said.st_mode) else "b" if stat.S_ISBLK(said.st_mode) else ""
    return (kind, os.major(said.st_rdev), os.minor(said.st_rdev)) if kind else None


def _rules(pid: int) -> list[str] | None:
    """Version 1 only: `c 195:0 rw`, `c 136:* rwm`, `a *:* rwm`."""
    group = None if groups.unified() else groups.of_process(pid, "devices")
    try:
        return (group / "devices.list").read_text().splitlines() if group is not None else None
    except OSError:
        return None


def _allows(rule: str, device: tuple[str, int, int]) -> bool:
    kind, numbers, how = rule.split()
    major, minor = numbers.split(":")
    fits = kind in ("a", device[0]) and major in ("*", str(device[1])) and minor in ("*", str(device[2]))
    return fits and "r" in how and "w" in how
