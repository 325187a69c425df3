"""Command profiles: what an allowlisted command may be (seed 004 §4.4 and §4.7; X18: the union).

A profile fixes everything but the values of `${name}` placeholders, and each of those has a JSON
Schema. A missing `run_as` means the agent's unprivileged service user, a missing `retries` means none.
"""

from typing import Any, Literal

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.strict import convert
from hostler.catalog.effects import Effects

_LATER = frozenset({"secret_files", "secret_env", "effects"})
_NOTHING: tuple[Any, ...] = ([], (), None)


class CommandProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`argv` is `command`, `base_args`, `allowed_args`, then `args` with placeholders filled in.

    Attributes:
        command: absolute path of the executable.
        base_args, allowed_args: fixed arguments (`allowed_args` is seed 004 §4.7's name for them).
        args: arguments that are either fixed or exactly `${name}`, one argument each.
        arg_schema: JSON Schema by placeholder name.
        env_passthrough: names copied from the agent's own environment; nothing else is set.
        env: fixed variables.
        secret_files: placeholders that stand for a secret: the argument becomes the name of a descriptor,
            `/proc/self/fd/N`, from which the command reads it.
        secret_env: variables that a step fills with a secret, for programs that know no other way.
        run_as: user name, or "" for the agent's service user.
        sha256: pinned digest of the executable, or "".
        effects: what it does to the machine; a node holds it to that. Without it only the walls of every command.
        on_interrupt: what a restart does with a run whose end is unknown.
    """

    id: str
    command: str
    base_args: tuple[str, ...] = ()
    allowed_args: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    arg_schema: dict[str, Any] = {}
    env_passthrough: tuple[str, ...] = ()
    env: dict[str, str] = {}
    secret_files: tuple[str, ...] = ()
    secret_env: tuple[str, ...] = ()
    run_as: str = ""
    working_directory: str = "/"
    timeout_seconds: int = 60
    retries: int = 0
    expected_exit_codes: tuple[int, ...] = (0,)
    capture_stdout: bool = True
    capture_stderr: bool = True
    max_output_bytes: int = 1_048_576
    sha256: str = ""
    on_interrupt: Literal["fail", "rerun"] = "fail"
    effects: Effects | None = None
    description: str = ""

    def canonical(self) -> bytes:
        """Fields that came later are left out while they say nothing: signed digests stay what they were."""
        built = msgspec.to_builtins(self)
        return canonical_json(
            {name: value for name, value in built.items() if name not in _LATER or value not in ([], (), None)}
        )

    def digest(self) -> str:
        return sha256_hex(self.canonical())


def command_profile_from(value: Any, what: str = "command profile") -> CommandProfile:
    """Raises `invalid_definition` with the path of the offending value. A null `arg_schema` is an empty one (EX-04)."""
    if isinstance(value, dict) and value.get("arg_schema", {}) is None:
        value = {name: field for name, field in value.items() if name != "arg_schema"}
    return convert(value, CommandProfile, code="invalid_definition", what=what)
