"""Parameters whose value stands before anything has run: gates look at those."""

from typing import Any, NamedTuple

from hostler.catalog.auto_executed import files_of
from hostler.catalog.binding import bind, references
from hostler.catalog.definition import Definition

_LOOKED_AT = (
    "url",
    "source",
    "reference",
    "path",
    "files",
    "owner",
    "group",
    "size_bytes",
    "packages",
    "repositories",
    "indexes",
    "unit",
    "units",
)


class Open(NamedTuple):
    """A parameter that gates look at, bindings unresolved."""

    kind: str
    name: str
    params: dict[str, Any]  # just this one


class Known(NamedTuple):
    kind: str
    name: str
    value: Any


def guarded(definition: Definition) -> tuple[Open, ...]:
    """Worked out once for each definition.

    What depends on the output of a step is left out: the runner checks it once it is bound.
    """
    return tuple(
        Open(step.kind, name, {name: step.params[name]})
        for step in definition.steps
        for name in _LOOKED_AT
        if name in step.params and not _waits(step.params[name])
    )


def known(guarded_params: tuple[Open, ...], inputs: dict[str, Any]) -> tuple[Known, ...]:
    return tuple(found for one in guarded_params for found in _each(one.kind, one.name, bind(one.params, inputs, {})))


def _each(kind: str, name: str, params: dict[str, Any]) -> tuple[Known, ...]:
    """Each of a step's `files` is looked at as a `path` is."""
    if name == "files":
        return tuple(Known(kind, "path", path) for path in files_of(params))
    return (Known(kind, name, params[name]),)


def _waits(value: Any) -> bool:
    return any(reference.startswith("steps.") for reference in references(value))
