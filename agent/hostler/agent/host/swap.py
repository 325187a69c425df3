"""Two system calls that Python does not offer: one name for another at once, and a whole file system to disk."""

import ctypes
import os

_RENAME_EXCHANGE = 2


def exchange(old_directory: int, old: str, new_directory: int, new: str) -> None:
    """Whoever looks sees one or the other, never neither. Raises `OSError`, also where a file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(old_directory, old.encode(), new_directory, new.encode(), _RENAME_EXCHANGE) != 0:
        failure = ctypes.get_errno()
        raise OSError(failure, os.strerror(failure))


def sync_file_system(descriptor: int) -> None:
    """Everything written to the file system that `descriptor` lies on. Raises `OSError`."""
    if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
        failure = ctypes.get_errno()
        raise OSError(failure, os.strerror(failure))
