"""What stands at the final name already."""

import os
from collections.abc import Callable

from hostler.agent.host.files import FileInfo, Files, Stopped
from hostler.base.errors import error


def look(files: Files, path: str, size: int = 0, stopped: Callable[[], bool] = lambda: False) -> FileInfo:
    """Reads the whole file if it has `size` bytes, or `size` is 0; otherwise its digest stays "": the
    length shows that it is another. Raises `path_denied`, `file_error`, and `canceled` when stopped."""
    found = files.info(path)
    if not found.exists or (size and found.size_bytes != size):
        return found
    try:
        return files.digest(path, stop=stopped)
    except Stopped as err:
        raise error("canceled", f"reading {path} was stopped") from err


def set_mode(directory: int, name: str, mode: int) -> None:
    """Raises `file_error`."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as err:
        raise error("file_error", f"the mode of {name} cannot be set: {err.strerror}") from err
