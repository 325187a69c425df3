"""YAML job files: strict, one job a document, amounts as people write them. Nothing is filled in or substituted.

A document is a `JobSpec`, with these words besides, for people: `cpu`, `memory`, `disk` and `shm` in `resources`
(`2`, `500m`, `4GiB`), `timeout` and `scheduling_timeout` (`90s`, `2h`), and a constraint as one text (`zone in a,b`).
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostler.base.errors import HostlerError, error
from hostler.base.strict import convert
from hostler.catalog.job import JobSpec
from hostler.cli.quantities import byte_count, cpu_millis, seconds

Read = Callable[[Any], int]
# what people write → (field, how it is read)
RESOURCE_WORDS: dict[str, tuple[str, Read]] = {
    "cpu": ("cpu_millis", cpu_millis),
    "memory": ("memory_bytes", byte_count),
    "disk": ("disk_bytes", byte_count),
    "shm": ("shm_bytes", byte_count),
}
JOB_WORDS: dict[str, tuple[str, Read]] = {
    "timeout": ("timeout_seconds", seconds),
    "scheduling_timeout": ("scheduling_timeout_seconds", seconds),
}
_NOT = (" not in ", " in ", "!=", "=")
_UNKNOWN = re.compile(r"unknown field `(.+)`")
_OPS = {" not in ": "not_in", " in ": "in", "!=": "ne", "=": "eq"}


def read_jobs(path: Path) -> list[JobSpec]:
    """Every job of the file, in order.

    Raises:
        HostlerError: `invalid_yaml` or `invalid_definition`, with file and line; `file_error`.
    """
    from hostler.catalog.load import parse_all  # YAML: only who submits a file pays for it

    sources = parse_all(path.read_bytes(), str(path))
    specs = []
    for source in sources:
        try:
            specs.append(spec_of(source.value))
        except HostlerError as err:
            where = f"{path}:{source.line(_pointer(err))}"
            raise error("invalid_definition", f"{where}: {err.message}", hint=err.hint, pointer=err.pointer) from err
    names = [spec.name for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise error("invalid_definition", f"{path} names two jobs {twice!r}")
    return specs


def spec_of(value: dict[str, Any]) -> JobSpec:
    """Raises `invalid_request` or `unknown_field`, with the pointer of what is wrong."""
    said = _translated(value, JOB_WORDS, "")
    if isinstance(said.get("resources"), dict):
        said["resources"] = _translated(said["resources"], RESOURCE_WORDS, "/resources")
    if isinstance(said.get("constraints"), list):
        said["constraints"] = [_constraint(each, f"/constraints/{n}") for n, each in enumerate(said["constraints"])]
    if isinstance(said.get("command"), str):
        hint = 'write a list, such as ["python", "train.py"]; no shell reads it'
        raise error("invalid_request", "command is a text, not a list of arguments", hint=hint, pointer="/command")
    return convert(said, JobSpec, what="job")


def constraint_of(text: str, *, prefer: bool = False) -> dict[str, Any]:
    """`key=value`, `key!=value`, `key in a,b`, `key not in a,b`, `key`. Raises `invalid_request`."""
    found = next((sign for sign in _NOT if sign in text), "")
    key, _, rest = text.partition(found) if found else (text, "", "")
    values = [value.strip() for value in rest.split(",")] if found.strip() in ("in", "not in") else [rest.strip()]
    if not key.strip() or " " in key.strip() or (found and not all(values)):
        hint = "key=value, key!=value, 'key in a,b', 'key not in a,b', or key alone where it only has to be there"
        raise error("invalid_request", f"{text[:80]!r} is no constraint", hint=hint)
    made: dict[str, Any] = {"key": key.strip(), "op": _OPS.get(found, "exists"), "values": values if found else []}
    return made | ({"prefer": True} if prefer else {})


def _pointer(err: HostlerError) -> str:
    """Of a field that does not exist: its own, not that of the value around it."""
    field = _UNKNOWN.search(err.message)
    return f"{err.pointer}/{field[1]}" if field else err.pointer


def _constraint(said: Any, pointer: str) -> Any:
    if not isinstance(said, str):
        return said
    try:
        return constraint_of(said)
    except HostlerError as err:
        raise error("invalid_request", err.message, hint=err.hint, pointer=pointer) from err


def _translated(value: dict[str, Any], words: dict[str, tuple[str, Read]], pointer: str) -> dict[str, Any]:
    """The same with people's words as fields. One thing said twice is refused."""
    made = {}
    for name, said in value.items():
        field, read = words.get(name, (name, None))
        if field != name and field in value:
            raise error("invalid_request", f"{name} and {field} say the same thing", pointer=f"{pointer}/{name}")
        try:
            made[field] = said if read is None else read(said)
        except HostlerError as err:
            raise error("invalid_request", f"{name}: {err.message}", pointer=f"{pointer}/{name}") from err
    return made
