"""Selector → nodes, of the request's own tenant and project only, frozen at submit (OP-09)."""

import msgspec

from hostler.base.errors import error
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow


def kinds_of(selector: TargetSelector) -> tuple[str, ...]:
    """How the targets are chosen, in the words of `allowed_target_kinds`."""
    return ("node",) * bool(selector.nodes) + ("group",) * bool(selector.labels)


def select(draft: Draft, command: SubmitOperation) -> list[NodeRow]:
    """The nodes named, then those whose labels all match, each once, in that order.

    Raises:
        HostlerError: `unknown_target`, `target_not_owned`, `revoked`, `empty_target`.
    """
    selector = command.target_selector
    chosen: dict[str, NodeRow] = {}
    for name in selector.nodes:
        node = _named(draft, command, name)
        chosen[node.node_id] = node
    if selector.labels:
        for node in draft.view.nodes_of(command.org_id, command.project_id):
            if node.state == "active" and _matches(node, selector.labels):
                chosen[node.node_id] = node
    if not chosen:
        raise error("empty_target", "the target selector matches no node", pointer="/target_selector")
    return list(chosen.values())


def _named(draft: Draft, command: SubmitOperation, name: str) -> NodeRow:
    found = draft.view.get(NodeRow, name) or next(iter(draft.view.nodes_named(name)), None)
    pointer = "/target_selector/nodes"
    if found is None:
        raise error("unknown_target", f"there is no node {name!r}", pointer=pointer)
    if (found.org_id, found.project_id) != (command.org_id, command.project_id):
        raise error("target_not_owned", f"node {name!r} is not of this project", pointer=pointer)
    if found.state == "revoked":
        raise error("revoked", f"node {name!r} is revoked", pointer=pointer)
    return found


def _matches(node: NodeRow, labels: dict[str, str]) -> bool:
    own: dict[str, str] = msgspec.json.decode(node.labels)
    return all(own.get(name) == value for name, value in labels.items())
