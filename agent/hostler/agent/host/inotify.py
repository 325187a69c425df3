"""Directories whose entries come, go or are written, told by the kernel: nothing is looked at while nothing happens."""

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_CREATE, _DELETE, _MOVED, _ATTRIB, _MODIFY = 0x100, 0x200, 0xC0, 0x4, 0x2
_ONLYDIR = 0x01000000
_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_READ = 65_536
_HEAD = struct.Struct("iIII")  # watch, what happened, cookie, bytes of the name behind
_OVERFLOW = -1  # the kernel has dropped some, of any watch
_BREATH_S = 0.01  # between two readings: a flood of writes is one change


class Changes:
    """`happened` is set whenever an entry of a watched directory appears, goes or changes its owner or mode.

    Directories that are absent are left out; `watch` may be called again once they may be there. Where the kernel
    gives no inotify, nothing ever happens: whoever uses this looks now and then as well.
    """

    def __init__(self) -> None:
        self.happened = asyncio.Event()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        if self._fd >= 0:
            asyncio.get_running_loop().add_reader(self._fd, self._read)

    def watch(self, directories: Iterable[Path]) -> None:
        """Watching one twice is watching it once."""
        if self._fd < 0:
            return
        mask = ctypes.c_uint32(_CREATE | _DELETE | _MOVED | _ATTRIB | _ONLYDIR)
        for directory in directories:
            self._libc.inotify_add_watch(self._fd, os.fsencode(directory), mask)

    def _read(self) -> None:
        """What exactly happened does not matter, also not when the kernel dropped some of it."""
        try:
            os.read(self._fd, _READ)
        except BlockingIOError:
            return
        self.happened.set()

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class Writes:
    """Who is woken by writes below which directory. One queue of the kernel for all: a user has few of them.

    It stays open until `close`: closing one takes the kernel 10 to 20 ms, in which the loop would stand still.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        self._woken: dict[int, list[asyncio.Event]] = {}
        self._breath: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def below(self, directory: Path, wake: asyncio.Event) -> Iterator[bool]:
        """`wake` is set by every write, and by every file that comes or is renamed, while the block lasts.

        Yields whether that is so: not where the kernel gives no inotify, or no such directory is there.
        """
        watch = self._add(directory)
        if watch < 0:
            yield False
            return
        self._woken.setdefault(watch, []).append(wake)
        try:
            yield True
        finally:
            self._leave(watch, wake)

    def _add(self, directory: Path) -> int:
        if self._fd < 0:
            self._fd = self._libc.inotify_init1(_CLOEXEC | _NONBLOCK)
            if self._fd < 0:
                return -1
            asyncio.get_running_loop().add_reader(self._fd, self._read)
        mask = ctypes.c_uint32(_MODIFY | _CREATE | _MOVED | _ONLYDIR)
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), mask)
        return watch

    def _leave(self, watch: int, wake: asyncio.Event) -> None:
        self._woken[watch].remove(wake)
        if not self._woken[watch]:
            del self._woken[watch]
            self._libc.inotify_rm_watch(self._fd, watch)  # refused where the directory is gone: that has ended it

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ)
        except BlockingIOError:
            return
        told = _watches(data)
        for watch, wakes in self._woken.items():
            if watch in told or _OVERFLOW in told:
                for wake in wakes:
                    wake.set()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        self._breath = loop.call_later(_BREATH_S, self._again)

    def _again(self) -> None:
        self._breath = None
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        """Who is still in a block is woken no more."""
        if self._breath is not None:
            self._breath.cancel()
            self._breath = None
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


def _watches(data: bytes) -> set[int]:
    found, at = set(), 0
    while at + _HEAD.size <= len(data):
        watch, _, _, name = _HEAD.unpack_from(data, at)
        found.add(watch)
        at += _HEAD.size + name
    return found
