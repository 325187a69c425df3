"""Configuration: one TOML file, strict, into a frozen struct whose defaults are the only defaults."""

import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hostler.base.errors import error
from hostler.base.strict import convert

T = TypeVar("T")


def load_config(path: Path, type_: type[T]) -> T:
    """The configuration in `path`.

    Raises:
        HostlerError: `invalid_config` with path, key and reason: absent, open to writing by others, not
            TOML (a half-written file), an unknown key, a wrong type.
    """
    return convert(read_toml(path), type_, code="invalid_config", what=str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The parsed file; see `load_config`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as err:
        raise error("invalid_config", f"configuration {path} cannot be read: {err.strerror}") from err
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise error("invalid_config", f"configuration {path} is not a regular file")
        if mode & stat.S_IWOTH:
            raise error("invalid_config", f"configuration {path} can be written by anybody", hint=f"chmod o-w {path}")
        data = file.read()
    try:
        return tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as err:
        raise error("invalid_config", f"configuration {path} is not valid TOML: {_lower(str(err))}") from err
    except UnicodeDecodeError as err:
        raise error("invalid_config", f"configuration {path} is not UTF-8 text") from err


def describe(config: msgspec.Struct, given: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Every `(key, value, origin)`; origin is `file` or `default`."""
    yield from _describe("", config, given)


def _describe(prefix: str, config: msgspec.Struct, given: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct):
            inner = given.get(name)
            yield from _describe(f"{prefix}{name}.", value, inner if isinstance(inner, dict) else {})
        else:
            yield f"{prefix}{name}", value, "file" if name in given else "default"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
