"""Configurations on disk: each in a file named by its digest, written whole before anything points at it."""

import contextlib
import os
from pathlib import Path

from hostler.base.digest import same_digest, sha256_hex
from hostler.base.errors import error
from hostler.pki.storage import sync_directory

MAX_BYTES = 1_048_576


def path_of(folder: Path, digest: str) -> Path:
    return folder / f"{digest}.json"


def write(folder: Path, body: bytes) -> str:
    """Durable when it returns; the digest. Raises `file_error`."""
    digest = sha256_hex(body)
    target = path_of(folder, digest)
    scratch = target.with_suffix(".new")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
        sync_directory(folder)
    except OSError as err:
        raise error("file_error", f"the resolver configuration cannot be written to {target}: {err.strerror}") from err
    return digest


def read(folder: Path, digest: str) -> bytes:
    """Raises `config_drift` for a file that is gone or is not what was applied (RD-02)."""
    path = path_of(folder, digest)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as err:
        raise error("config_drift", f"the resolver configuration {path} cannot be read: {err.strerror}") from err
    if not same_digest(sha256_hex(body), digest):
        raise error("config_drift", f"the resolver configuration {path} is not what was applied")
    return body


def keep_only(folder: Path, digest: str) -> None:
    """Removes the others; what cannot be removed does no harm, because nothing names it."""
    for path in folder.glob("*"):
        if path != path_of(folder, digest):
            with contextlib.suppress(OSError):
                path.unlink()
