"""Selector → nodes, of the request's own tenant and project only, frozen at submit (OP-09)."""

import msgspec

from hostler.base.errors import error
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_settings import FAMILIES
from hostler.control.kernel.allocation_states import ACTIVE
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow


def kinds_of(selector: TargetSelector) -> tuple[str, ...]:
    """How the targets are chosen, in the words of `allowed_target_kinds`."""
    chosen = {"node": selector.nodes, "group": selector.labels, "allocation": selector.allocation}
    # a job names none: its nodes are chosen by what they are
    return tuple(kind for kind, given in chosen.items() if given) or ("group",)


def select(draft: Draft, command: SubmitOperation) -> list[NodeRow]:
    """The nodes named, then those whose labels all match, each once, in that order.

    Raises:
        HostlerError: `unknown_target`, `target_not_owned`, `revoked`, `empty_target`.
    """
    selector = command.target_selector
    if command.linked_allocation_id and command.trigger_source == "tenant_request":
        return _of_allocation(draft, command)
    chosen: dict[str, NodeRow] = {}
    for name in selector.nodes:
        node = _named(draft, command, name)
        chosen[node.node_id] = node
    if selector.labels:
        for node in draft.current(draft.view.nodes_of(command.org_id, command.project_id)):
            if node.state == "active" and not node.allocation_id and _matches(node, selector.labels):
                chosen[node.node_id] = node
    if not chosen:
        raise error("empty_target", "the target selector matches no node", pointer="/target_selector")
    return list(chosen.values())


def _named(draft: Draft, command: SubmitOperation, name: str) -> NodeRow:
    found = draft.get(NodeRow, name) or next(iter(draft.view.nodes_named(name)), None)
    pointer = "/target_selector/nodes"
    if found is None:
        raise error("unknown_target", f"there is no node {name!r}", pointer=pointer)
    if (found.org_id, found.project_id) != (command.org_id, command.project_id):
        raise error("target_not_owned", f"node {name!r} is not of this project", pointer=pointer)
    if found.state == "revoked":
        raise error("revoked", f"node {name!r} is revoked", pointer=pointer)
    if found.allocation_id != command.linked_allocation_id:
        raise error(
            "wrong_allocation",
            f"node {name!r} is held by allocation {found.allocation_id or 'none'}",
            hint="name the allocation in the target selector",
            pointer=pointer,
        )
    return found


def _of_allocation(draft: Draft, command: SubmitOperation) -> list[NodeRow]:
    """The allocation's nodes: those named, those whose labels match, or with neither all of them."""
    allocation = draft.get(AllocationRow, command.linked_allocation_id)
    pointer = "/target_selector/allocation"
    if allocation is None or (allocation.org_id, allocation.project_id) != (command.org_id, command.project_id):
        raise error("not_found", f"there is no allocation {command.linked_allocation_id!r}", pointer=pointer)
    if allocation.state != ACTIVE:
        raise error("allocation_state", f"allocation {allocation.allocation_id} is {allocation.state}", pointer=pointer)
    if command.operation_type in FAMILIES.values():
        raise error("chain_order", f"{command.operation_type} is a link of an allocation's chain; it comes by itself")
    selector = command.target_selector
    own = draft.current(draft.view.nodes_of(command.org_id, command.project_id))
    held = [n for n in own if n.allocation_id == allocation.allocation_id and n.state == "active"]
    if selector.nodes:
        held = [_named(draft, command, name) for name in selector.nodes]
    chosen = {node.node_id: node for node in held if _matches(node, selector.labels)}
    if not chosen:
        raise error("empty_target", "the target selector matches no node", pointer="/target_selector")
    return list(chosen.values())


def _matches(node: NodeRow, labels: dict[str, str]) -> bool:
    own: dict[str, str] = msgspec.json.decode(node.labels)
    return all(own.get(name) == value for name, value in labels.items())
