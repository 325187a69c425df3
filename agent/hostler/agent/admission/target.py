"""Is it meant for us, as we are now?"""

from hostler.agent.admission.case import Case
from hostler.agent.journal import binding
from hostler.base.digest import same_digest
from hostler.base.errors import error


def target(case: Case) -> None:
    """Raises `wrong_node` (T2) or, for another key of the same node, `wrong_node_key` (PK-10)."""
    order, view = case.order, case.view
    if order.node_id != view.node_id:
        raise error("wrong_node", f"the task is addressed to node {order.node_id}, this is {view.node_id}")
    if not same_digest(order.node_key_thumbprint, view.thumbprint):
        raise error("wrong_node_key", f"the task is bound to another key of node {view.node_id}")
    case.addressed = True


def allocation(case: Case) -> None:
    """Raises `wrong_allocation` (both must name the same one, or none) or `chain_order` (AL-06)."""
    binding.check(case.task, case.view.binding)
