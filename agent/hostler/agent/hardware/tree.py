"""Bounded reading below a root: sysfs and its like, taken for hostile. Nothing here raises or waits."""

import itertools
import os
import stat
from pathlib import Path

MOST_BYTES = 4096
MOST_ENTRIES = 4096


def read(path: Path, most: int = MOST_BYTES) -> str:
    """The first `most` bytes of a regular file as text without surrounding space; "" for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)  # a FIFO must not hold us
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, most).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def entries(path: Path) -> tuple[str, ...]:
    """Names in a directory, sorted; at most `MOST_ENTRIES` of them; none where there is no directory."""
    try:
        with os.scandir(path) as found:
            return tuple(sorted(entry.name for entry in itertools.islice(found, MOST_ENTRIES)))
    except OSError:
        return ()


def number(text: str) -> int:
    """A kernel's number, decimal or 0x; -1 for anything else."""
    try:
        return int(text, 0) if len(text) <= 20 else -1
    except ValueError:
        return -1


def is_there(path: Path) -> bool:
    """Whether something has that name; a dangling link counts as nothing."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except (OSError, ValueError):
        return False
