"""Directories whose entries come and go, told by the kernel: nothing is looked at while nothing happens."""

import asyncio
import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE, _DELETE, _MOVED, _ATTRIB = 0x100, 0x200, 0xC0, 0x4
_ONLYDIR = 0x01000000
_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_READ = 65_536


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
