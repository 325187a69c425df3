"""The operator's Rego files, read once: every process of the engine is started with the same text."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hostler.base.errors import error

MAX_BYTES = 1_048_576


class Module(NamedTuple):
    name: str
    source: str


def read_modules(paths: Iterable[str]) -> tuple[Module, ...]:
    """Raises `invalid_config` with the path, for what cannot be read or could be written by anybody."""
    return tuple(Module(path, _text(Path(path))) for path in paths)


def _text(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as err:
        raise error("invalid_config", f"policy file {path} cannot be read: {err.strerror}") from err
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise error("invalid_config", f"policy file {path} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if mode & stat.S_IWOTH:
            raise error("invalid_config", f"policy file {path} can be written by anybody", hint=f"chmod o-w {path}")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise error("invalid_config", f"policy file {path} is larger than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        raise error("invalid_config", f"policy file {path} is not UTF-8 text") from err
