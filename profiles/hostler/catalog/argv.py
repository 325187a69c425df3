"""The only maker of argv: a command profile and validated values, one argument each (EX-05, J3)."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from hostler.base.errors import error
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.inputs import check_inputs

MAX_ARGUMENT_BYTES = 4096
FIRST_SECRET_FD = 3
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


def placeholders(profile: CommandProfile) -> list[str]:
    """Names of the profile's dynamic arguments, in order; those that stand for a secret are none."""
    return [name for name in all_placeholders(profile) if name not in profile.secret_files]


def all_placeholders(profile: CommandProfile) -> list[str]:
    return [match[1] for match in map(_PLACEHOLDER.fullmatch, profile.args) if match]


def build_argv(profile: CommandProfile, args: Mapping[str, Any]) -> tuple[str, ...]:
    """The whole argument vector, ready for execve.

    Raises:
        HostlerError: `input_schema` for a value that is absent, superfluous, breaks its schema, or could be
            taken for something else than the one value it is.
    """
    names = placeholders(profile)
    for name in args:
        if name not in names:
            raise error("input_schema", f"command profile {profile.id} takes no argument {name!r}")
    dynamic = [_argument(profile, match[1], args) if match else fixed for match, fixed in _matched(profile)]
    return (profile.command, *profile.base_args, *profile.allowed_args, *dynamic)


def _matched(profile: CommandProfile) -> list[tuple[re.Match[str] | None, str]]:
    return [(_PLACEHOLDER.fullmatch(arg), arg) for arg in profile.args]


def _argument(profile: CommandProfile, name: str, args: Mapping[str, Any]) -> str:
    if name in profile.secret_files:
        return f"/proc/self/fd/{FIRST_SECRET_FD + profile.secret_files.index(name)}"
    where = f"argument {name!r} of command profile {profile.id}"
    schema = profile.arg_schema.get(name)
    if schema is None:
        raise error("invalid_definition", f"{where} has no schema")
    if name not in args:
        raise error("input_schema", f"{where} is missing")
    value = args[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise error("input_schema", f"{where} is neither text nor a whole number")
    text = str(value)
    if any(unicodedata.category(character).startswith("C") for character in text):
        raise error("input_schema", f"{where} holds a control character")
    check_inputs(schema, value, where)
    if len(text.encode()) > MAX_ARGUMENT_BYTES:
        raise error("input_schema", f"{where} is longer than {MAX_ARGUMENT_BYTES} bytes")
    if text.startswith("-") and not (isinstance(value, int) or schema.get("x-allow-leading-dash")):
        raise error("input_schema", f"{where} begins with a dash")
    if not text.isascii() and not schema.get("x-allow-unicode"):
        raise error("input_schema", f"{where} holds a character outside ASCII")
    if unicodedata.normalize("NFC", text) != text:
        raise error("input_schema", f"{where} is not in Unicode normal form C")
    return text
