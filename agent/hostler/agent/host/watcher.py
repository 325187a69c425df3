"""Sees every call that would write, before it happens, and says which were not declared. Standard library only.

Landlock is the wall; this is the witness. A path can change between our look and the kernel's, so what we let
pass is still judged by Landlock, and what we refuse was refused whatever happened meanwhile.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterable

from hostler.agent.host.landlock import DEVICES
from hostler.agent.host.seccomp import WRITERS, WRITING, Machine

_RECEIVE, _ANSWER, _STILL_THERE = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_CONTINUE = 1
_AT_FDCWD = -100
_LONGEST_PATH = 4096
MOST_NOTED = 16


class Watcher:
    """One listener: for one command at a time, and all it starts.

    Attributes:
        undeclared: the first paths outside what was declared that somebody tried to change.
    """

    def __init__(self, listener: int, kind: Machine, writable: Iterable[str]) -> None:
        self.fd = listener
        self._writers = {kind.calls[name]: (name, WRITERS[name]) for name in WRITERS if name in kind.calls}
        self._writable = tuple(os.path.realpath(path) for path in writable)
        self.undeclared: list[str] = []

    def taken(self) -> list[str]:
        """The paths noted since the last time."""
        taken, self.undeclared = self.undeclared, []
        return taken

    def step(self) -> bool:
        """Answers one call. False once nobody is left who could make one."""
        data = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, data)
        except OSError as err:
            return err.errno in (errno.EINTR, errno.ENOENT)  # it died before we looked
        number, pid, _, call, *rest = _NOTIFICATION.unpack(data)
        refused = self._judge(pid, call, rest[2:])
        answer = (number, 0, -errno.EACCES, 0) if refused else (number, 0, 0, _CONTINUE)
        try:
            fcntl.ioctl(self.fd, _STILL_THERE, struct.pack("=Q", number))
            fcntl.ioctl(self.fd, _ANSWER, bytearray(_RESPONSE.pack(*answer)))
        except OSError:
            return True  # it is gone, and its call with it
        for path in refused:
            if len(self.undeclared) < MOST_NOTED and path not in self.undeclared:
                self.undeclared.append(path)
        return True

    def _judge(self, pid: int, call: int, arguments: list[int]) -> list[str]:
        """The paths that were not declared."""
        name, places = self._writers.get(call, ("", ()))
        try:
            if name == "openat2" and not _flags_of(pid, arguments[2]) & WRITING:
                return []
            named = [_path(pid, arguments, *place) for place in places]
        except (OSError, ValueError):
            return []  # unreadable: the kernel will not make sense of it either, and Landlock stands
        return [path for path in named if path and not self._is_declared(path)]

    def _is_declared(self, path: str) -> bool:
        if path.startswith(("/proc/", "pipe:", "socket:", "anon_inode:")) or path in DEVICES or path == "/dev/pts":
            return True  # a stream that it has already, or for Landlock alone
        return any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in self._writable)


def _path(pid: int, arguments: list[int], directory: int, place: int) -> str:
    """The absolute path that a call names, symbolic links followed; "" for none."""
    if arguments[place] == 0:
        return ""
    text = _text(pid, arguments[place])
    if not text:
        return ""
    if not text.startswith("/"):
        descriptor = _AT_FDCWD if directory < 0 else _signed(arguments[directory])
        base = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
        text = f"{os.readlink(f'/proc/{pid}/{base}')}/{text}"  # noqa: PTH115
    if text.startswith(("/proc/self/", "/dev/std", "/dev/fd/")):
        return "/proc/" + text
    return os.path.realpath(text)


def _text(pid: int, address: int) -> str:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        memory.seek(address)
        found = b""
        while b"\0" not in found and len(found) < _LONGEST_PATH:
            # not over the end of a page: the next may not be there
            more = memory.read(4096 - (address + len(found)) % 4096)
            if not more:
                break
            found += more
    return os.fsdecode(found.partition(b"\0")[0])


def _flags_of(pid: int, address: int) -> int:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        memory.seek(address)
        return int.from_bytes(memory.read(8), "little")


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
