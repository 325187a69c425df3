"""What the definition requires against what this node has (CG-02)."""

from hostler.agent.admission.case import Case
from hostler.base.errors import error
from hostler.catalog.capabilities import sentence, unmet


def capability(case: Case) -> None:
    """Raises `incompatible`, naming the key."""
    assert case.definition is not None
    required, have = case.definition.capabilities, case.view.capabilities
    key = unmet(required, have)
    if key:
        raise error("incompatible", sentence(key, required, have))
