"""What stands in a directory, as one digest: every name, type, mode and content."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from hostler.agent.oci.room import MARKER
from hostler.base.digest import digest_of
from hostler.base.errors import error

READ_BYTES = 1 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = _OPEN | os.O_DIRECTORY
Row = list[Any]  # [path, type, mode, size, SHA-256 or target]


def file_row(path: str, mode: int, size: int, sha256: str) -> Row:
    return [path, "file", mode, size, sha256]


def tree_digest(rows: Iterator[Row] | list[Row]) -> str:
    return digest_of(sorted(rows))


def rows_of(directory: int, stopped: Callable[[], bool] = lambda: False) -> Iterator[Row]:
    """Every entry below an open directory but our marker, content hashed. Raises `file_error`, `canceled`."""
    try:
        yield from _below(directory, "", stopped)
    except OSError as err:
        raise error("file_error", f"a directory cannot be read: {err.strerror}") from err


def _below(directory: int, prefix: str, stopped: Callable[[], bool]) -> Iterator[Row]:
    for name in _names(directory):
        path = f"{prefix}{name}"
        if path == MARKER:
            continue
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISDIR(found.st_mode):
            yield [path, "directory", mode, 0, ""]
            fd = os.open(name, _DIRECTORY, dir_fd=directory)
            try:
                yield from _below(fd, f"{path}/", stopped)
            finally:
                os.close(fd)
        elif stat.S_ISLNK(found.st_mode):
            yield [path, "link", 0, 0, os.readlink(name, dir_fd=directory)]
        elif stat.S_ISREG(found.st_mode):
            size, sha256 = hash_file(directory, name, stopped)
            yield file_row(path, mode, size, sha256)
        else:
            yield [path, "other", mode, 0, ""]


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def hash_file(directory: int, name: str, stopped: Callable[[], bool] = lambda: False) -> tuple[int, str]:
    """Size and SHA-256 of a file that is no link. Raises `OSError`, `canceled`."""
    fd = os.open(name, _OPEN, dir_fd=directory)
    try:
        digest, size, room = hashlib.sha256(), 0, memoryview(bytearray(READ_BYTES))
        while count := os.readv(fd, [room]):
            if stopped():
                raise error("canceled", "reading what stands there was stopped")
            digest.update(room[:count])
            size += count
    finally:
        os.close(fd)
    return size, digest.hexdigest()
