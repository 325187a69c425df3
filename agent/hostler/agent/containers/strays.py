"""Ends what a program in a container has left behind, by a mark in its environment that its children inherit.

Engines kill the one process that they started. What it forked is found again by the mark, or below something marked;
a program that both drops its environment and leaves its parents is the container's own and ends with it.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

VARIABLE = "HOSTLER_TERMINAL"
_ROUNDS = 50
_PAUSE_S = 0.01
_LOOKS = 2  # a process that becomes another program has no environment for a moment
_PROC = Path("/proc")


async def end(mark: str) -> None:
    """SIGKILL to all that carry the mark, until none is left."""
    wanted = f"{VARIABLE}={mark}".encode()
    without = 0
    for _ in range(_ROUNDS):
        found = await asyncio.to_thread(_marked, wanted)
        without = 0 if found else without + 1
        if without == _LOOKS:
            return
        for pid in found:
            _kill(pid, wanted, found)
        await asyncio.sleep(_PAUSE_S)


def _marked(wanted: bytes) -> dict[int, int]:
    """Process and parent."""
    parents = {pid: _parent(pid) for pid in (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())}
    found = {pid for pid in parents if wanted in _environment(pid)}
    grown = True
    while found and grown:
        below = {pid for pid, parent in parents.items() if parent in found} - found
        found |= below
        grown = bool(below)
    return {pid: parents[pid] for pid in found}


def _kill(pid: int, wanted: bytes, found: dict[int, int]) -> None:
    """By a descriptor, and looked at again behind it: the number may be another's meanwhile."""
    with contextlib.suppress(OSError):
        held = os.pidfd_open(pid)
        try:
            if wanted in _environment(pid) or (_parent(pid) == found[pid] and found[pid] in found):
                signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1
