"""Reads a host below its root: bounded, never through a symbolic link, never a device or a pipe.

A tenant owns much of what is read. Every name and entry is paid for out of `Bounds`; when they are used
up the family is incomplete, which is no clean bill (R2).
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hostler.base.clock import Deadline

DEPTH = 64
FILE_BYTES = 4 * 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Exhausted(Exception):
    """There is more than may be looked at."""


@dataclass
class Bounds:
    """What one inventory may cost. `stop` ends it early."""

    entries: int
    deadline: Deadline
    stop: Callable[[], bool] = lambda: False

    def spend(self, count: int = 1) -> None:
        """Raises `Exhausted`."""
        self.entries -= count
        if self.entries < 0:
            raise Exhausted("there are more entries than may be looked at")
        if self.stop():
            raise Exhausted("it was stopped")
        if self.deadline.passed():
            raise Exhausted("the time for looking is up")


class Entry(NamedTuple):
    """`path` is absolute, as bytes: names need not be text."""

    path: bytes
    status: os.stat_result
    directory: int  # descriptor of what holds it; good until the walk goes on
    name: bytes


class Reader:
    def __init__(self, root: Path, bounds: Bounds) -> None:
        self.root = root
        self.bounds = bounds

    def read(self, path: str | bytes, limit: int = FILE_BYTES) -> bytes:
        """Raises FileNotFoundError, OSError for what is no regular file, `Exhausted` for one that is too long."""
        self.bounds.spend()
        with self._parent(os.fsencode(path)) as (directory, name):
            return read_at(directory, name, limit)

    def text(self, path: str, limit: int = FILE_BYTES) -> str:
        return self.read(path, limit).decode("utf-8", "surrogateescape")

    def text_or_none(self, path: str, limit: int = FILE_BYTES) -> str | None:
        """`None` where there is no such file. Raises OSError for anything else that keeps it from being read."""
        try:
            return self.text(path, limit)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, path: str) -> bool:
        try:
            with self._parent(os.fsencode(path)) as (directory, name):
                os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self, path: str) -> list[str]:
        """Of a directory, sorted; nothing where there is none."""
        try:
            fd = self._open_directory(os.fsencode(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        try:
            found = []
            with os.scandir(fd) as entries:
                for entry in entries:
                    self.bounds.spend()
                    found.append(entry.name)
            return sorted(found)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def single(self, path: str) -> Iterator[Entry | None]:
        """What stands at `path` itself; `None` for nothing."""
        self.bounds.spend()
        full = os.fsencode(path)
        try:
            with self._parent(full) as (directory, name):
                yield Entry(full, os.stat(name, dir_fd=directory, follow_symlinks=False), directory, name)
        except (FileNotFoundError, NotADirectoryError):
            yield None

    def walk(self, top: str, skip: Callable[[bytes], bool] = lambda _: False) -> Iterator[Entry]:
        """All below `top`, not `top` itself, on its own file system. What vanishes meanwhile is passed over.

        Raises:
            Exhausted: also for a tree deeper than `DEPTH`.
        """
        try:
            fd = self._open_directory(os.fsencode(top))
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            device = os.fstat(fd).st_dev
            yield from self._below(fd, os.fsencode(top).rstrip(b"/"), device, skip, DEPTH)
        finally:
            os.close(fd)

    def _below(self, fd: int, path: bytes, device: int, skip: Callable[[bytes], bool], depth: int) -> Iterator[Entry]:
        if depth == 0:
            raise Exhausted("a directory tree is too deep")
        for name in self._listed(fd):
            full = path + b"/" + name
            if skip(full):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                yield Entry(full, status, fd, name)
                if not stat.S_ISDIR(status.st_mode) or status.st_dev != device:
                    continue
                below = os.open(name, _DIRECTORY, dir_fd=fd)
                try:
                    if os.fstat(below).st_dev == device:
                        yield from self._below(below, full, device, skip, depth - 1)
                finally:
                    os.close(below)

    def _listed(self, fd: int) -> list[bytes]:
        names = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self.bounds.spend()
                names.append(os.fsencode(entry.name))
        return sorted(names)

    @contextlib.contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        directory, _, name = path.rpartition(b"/")
        fd = self._open_directory(directory)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def _open_directory(self, path: bytes) -> int:
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in filter(None, path.split(b"/")):
            try:
                below = os.open(part, _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd


def read_at(directory: int, name: bytes, limit: int = FILE_BYTES) -> bytes:
    """A regular file's content. Raises OSError, `Exhausted` beyond `limit`."""
    fd = os.open(name, _READ, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it is no regular file")
        parts, left = [], limit + 1
        while left > 0 and (part := os.read(fd, min(left, 1024 * 1024))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(fd)
    if left <= 0:
        raise Exhausted(f"a file is longer than {limit} bytes")
    return b"".join(parts)
