"""Bindings: a string that is exactly `${inputs.x}` or `${steps.id.output}` stands for that whole value.

There is no interpolation into text, so no value can change the shape of what it is put into (EX-05).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hostler.base.errors import error

_BINDING = re.compile(r"\$\{(?:inputs\.([A-Za-z_][\w-]*)|steps\.([\w.-]+)\.([A-Za-z_][\w-]*))\}", re.ASCII)


class Reference(tuple[str, str]):
    """`("", name)` for an input, `(step_id, output)` for an earlier step's output."""

    __slots__ = ()


def reference(value: Any) -> Reference | None:
    """The reference that `value` is, if it is one."""
    match = _BINDING.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    return Reference(("", match[1])) if match[1] else Reference((match[2], match[3]))


def marked(value: Any) -> Iterator[tuple[str, str]]:
    """Every `(pointer, string)` in a document that holds `${`, well-formed or not."""
    return _walk("", value)


def references(value: Any) -> set[str]:
    """Everything that `value` binds, as `inputs.x` and `steps.id.output`."""
    found = (reference(text) for _, text in marked(value))
    return {f"steps.{ref[0]}.{ref[1]}" if ref[0] else f"inputs.{ref[1]}" for ref in found if ref}


def _walk(pointer: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if "${" in value:
            yield pointer, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(f"{pointer}/{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(f"{pointer}/{index}", item)


def bind(params: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Mapping[str, Any]]) -> Any:
    """`params` with every binding replaced by the value it stands for.

    Raises:
        HostlerError: `binding_error` naming the input or output that is absent.
    """
    found = reference(params)
    if found is not None:
        return _value(found, inputs, outputs)
    if isinstance(params, Mapping):
        return {key: bind(value, inputs, outputs) for key, value in params.items()}
    if isinstance(params, list | tuple):
        return [bind(value, inputs, outputs) for value in params]
    return params


def _value(found: Reference, inputs: Mapping[str, Any], outputs: Mapping[str, Mapping[str, Any]]) -> Any:
    step_id, name = found
    source = inputs if not step_id else outputs.get(step_id, {})
    if name not in source:
        what = f"output {name!r} of step {step_id!r}" if step_id else f"input {name!r}"
        raise error("binding_error", f"{what} is needed and absent")
    return source[name]
