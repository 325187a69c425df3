"""Removes what others could write to: however deep it is, no link followed, never into another file system.

A tree may be deeper than a process may have files open or calls nested, and a path to its end longer than any call
takes. So each directory is first moved up to the top: three descriptors are enough for any tree.
"""

import errno
import os
import secrets
import stat
from pathlib import Path

from hostler.base.errors import error

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path) -> None:
    """A tree in a directory of root's alone; nothing there is success. Blocking. Raises `busy`, `file_error`."""
    try:
        above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as err:
        raise error("file_error", f"{path} cannot be removed: {err.strerror}") from err
    try:
        remove_at(above, path.name, str(path))
    finally:
        os.close(above)


def remove_at(directory: int, name: str, shown: str) -> None:
    """Raises `busy` at a mount, `file_error`."""
    try:
        if _is_left(directory, name):
            _remove(directory, name)
    except OSError as err:
        code = "busy" if err.errno == errno.EBUSY else "file_error"
        raise error(code, f"{shown} cannot be removed: {err.strerror}") from err


def _remove(directory: int, name: str) -> None:
    device = os.fstat(directory).st_dev
    top = _opened(directory, name, device)
    try:
        left = _emptied(top, top)
        while left:
            below = left.pop()
            fd = _opened(top, below, device)
            try:
                left += _emptied(fd, top)
            finally:
                os.close(fd)
            os.rmdir(below, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=directory)


def _emptied(fd: int, top: int) -> list[str]:
    """Takes everything out of a directory; → the names of its directories, in `top` from then on."""
    left = [name for name in os.listdir(fd) if _is_left(fd, name)]
    if fd == top:
        return left
    moved = [secrets.token_hex(16) for _ in left]
    for name, fresh in zip(left, moved, strict=True):
        os.rename(name, fresh, src_dir_fd=fd, dst_dir_fd=top)
    return moved


def _is_left(directory: int, name: str) -> bool:
    """Removes it, unless it is a directory."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    except (IsADirectoryError, PermissionError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise
        return True
    return False


def _opened(directory: int, name: str, device: int) -> int:
    fd = os.open(name, _DIRECTORY, dir_fd=directory)
    if os.fstat(fd).st_dev != device:
        os.close(fd)
        raise OSError(errno.EBUSY, "another file system is mounted there")
    return fd
