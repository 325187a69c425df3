"""What runs below this process, however often it forked. Only the standard library may be imported here."""

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36


def inherit_orphans() -> None:
    """Orphans below this process become its children from now on."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def children() -> list[int]:
    """Direct children of every thread, orphans taken over included."""
    me, found = os.getpid(), []
    try:
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - pathlib is heavy here
            with open(f"/proc/self/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += [int(word) for word in file.read().split()]
    except FileNotFoundError:  # a thread that has just ended, or a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == me]  # noqa: PTH208
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1
