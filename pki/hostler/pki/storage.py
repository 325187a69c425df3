"""Key and state files: modes, atomic replacement, and refusal of what others could read or write."""

import contextlib
import os
import stat
from pathlib import Path

from hostler.base.errors import error


def write_private(path: Path, data: bytes) -> None:
    """Writes `data` with mode 0600, whole or not at all."""
    _replace(path, data, 0o600)


def write_public(path: Path, data: bytes) -> None:
    """Writes `data` with mode 0644, whole or not at all."""
    _replace(path, data, 0o644)


def read_private(path: Path) -> bytes:
    """Raises `invalid_config` when the file is absent, or open to group or others."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as err:
        raise error("invalid_config", f"key file {path} cannot be read: {err.strerror}") from err
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise error("invalid_config", f"key file {path} is not a regular file")
        if mode & 0o077:
            raise error("invalid_config", f"key file {path} is open to others", hint=f"chmod 600 {path}")
        return file.read()


def read_public(path: Path) -> bytes:
    """Raises `invalid_config` when the file cannot be read."""
    try:
        return path.read_bytes()
    except OSError as err:
        raise error("invalid_config", f"{path} cannot be read: {err.strerror}") from err


def _replace(path: Path, data: bytes, mode: int) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):
        scratch.unlink()
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """So that names that were given or taken away in it outlive a loss of power. Raises `OSError`."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
