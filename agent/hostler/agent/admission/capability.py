"""What the definition requires against what this node has (CG-02)."""

from typing import Any

from hostler.agent.admission.case import Case
from hostler.base.errors import error


def capability(case: Case) -> None:
    """Raises `incompatible`, naming the key. A list of values means any of them."""
    assert case.definition is not None
    have = case.view.capabilities
    for key, wanted in case.definition.capabilities.items():
        found = have.get(key)
        if found is None or not _fits(found, wanted):
            here = "unknown" if found is None else found
            raise error("incompatible", f"capability {key} is {here} on this node, not {_shown(wanted)}")


def _fits(found: str, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return any(_fits(found, one) for one in wanted)
    if isinstance(wanted, bool):
        return found == ("true" if wanted else "false")
    return found == str(wanted)


def _shown(wanted: Any) -> str:
    return " or ".join(map(str, wanted)) if isinstance(wanted, list | tuple) else str(wanted)
