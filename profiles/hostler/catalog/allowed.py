"""Names that a signed definition must list before a step may touch what they name (SK-05, SK-08).

The linter looks at what stands in the definition, admission at what the inputs made of it, the runner at
whatever a parameter has become.
"""

from collections.abc import Iterator
from typing import Any

from hostler.base.errors import error
from hostler.catalog.definition import Definition

PACKAGES, UNITS, JOIN = "package.install", "service.control", "cluster.join"
_HINT = "the definition must name it in {}, and be signed so"


def check_allowed(kind: str, params: Any, definition: Definition) -> None:
    """Raises `package_not_allowed` or `unit_not_allowed` for a name that the definition does not list.

    Args:
        params: a struct, or a mapping of parameters some of which may be absent.
    """
    if kind == PACKAGES:
        for name in named_packages(_get(params, "packages")):
            if name not in definition.allowed_packages:
                message = f"{definition.ref} may not install {name}"
                raise error("package_not_allowed", message, hint=_HINT.format("allowed_packages"))
    for unit in _units(kind, params):
        if isinstance(unit, str) and unit not in definition.allowed_units:
            message = f"{definition.ref} may not control {unit}"
            raise error("unit_not_allowed", message, hint=_HINT.format("allowed_units"))


def _units(kind: str, params: Any) -> tuple[Any, ...]:
    if kind == JOIN:
        units = _get(params, "units")
        return tuple(units) if isinstance(units, list | tuple) else ()
    return (_get(params, "unit"),) if kind == UNITS else ()


def named_packages(packages: Any) -> Iterator[str]:
    """The names in a parameter `packages`, typed or not yet."""
    for package in packages if isinstance(packages, list | tuple) else ():
        name = _get(package, "name")
        if isinstance(name, str):
            yield name


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
