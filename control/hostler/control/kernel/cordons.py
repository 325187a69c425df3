"""Cordon and drain: each party's wish is kept under its own name, and lifted by nobody else (EF-07, DM-22, R3)."""

import msgspec

from hostler.base.errors import error
from hostler.base.ids import is_name
from hostler.control.kernel import changes, events, job_flow
from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.allocation_rows import CordonRow
from hostler.control.kernel.allocation_states import CORDONED, DRAINING, scheduling_of
from hostler.control.kernel.assign import fill
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.tasks import node_of
from hostler.control.kernel.transitions import QUEUED

replace = msgspec.structs.replace
_WORDS = {
    CORDONED: ("node.cordoned", "node.cordon"),
    DRAINING: ("node.drained", "node.drain"),
    "": ("node.uncordoned", "node.uncordon"),
}
MAX_REASON = 500


def cordon(draft: Draft, command: CordonNode) -> Decision:
    """→ the node's scheduling: the strongest of all wishes. A drained node finishes what runs and starts nothing."""
    return draft.decision(wish(draft, command))


def wish(draft: Draft, command: CordonNode) -> str:
    """As `cordon`, within a larger decision. Raises `invalid_request`, `revoked`."""
    if command.kind not in _WORDS:
        raise error("invalid_request", f"a node is cordoned or draining, not {command.kind!r}", pointer="/kind")
    if not is_name(command.owner):
        raise error("invalid_request", f"{command.owner!r} cannot name a party", pointer="/owner")
    node = node_of(draft, command.node_id)
    if node.state != "active":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    wished = draft.get(CordonRow, (command.node_id, command.owner))
    if not _changed(draft, command):
        return node.scheduling
    scheduling = scheduling_of(draft.rows_of(CordonRow, draft.view.cordons_of(node.node_id)))
    now = replace(node, scheduling=scheduling)
    draft.update(now)
    type_, action = _WORDS[command.kind]
    draft.events.append(
        events.node_event(
            type_,
            now,
            draft.now_ms,
            actor=command.actor,
            action=action,
            change=changes.between(
                {"scheduling": node.scheduling} | _said(wished),
                {"scheduling": scheduling} | _said(draft.get(CordonRow, (command.node_id, command.owner))),
            ),
            owner=command.owner,
            reason=command.reason[:MAX_REASON],
            scheduling=scheduling,
        )
    )
    draft.scheduling[node.node_id] = scheduling
    draft.wake.add(node.node_id)
    if node.scheduling == DRAINING != scheduling:
        _go_on(draft, node.node_id)
    draft.freed[node.node_id] = None
    job_flow.look_at_node(draft, now)
    return scheduling


def _said(wish: CordonRow | None) -> dict[str, str]:
    return {"kind": wish.kind, "reason": wish.reason} if wish else {"kind": "", "reason": ""}


def _changed(draft: Draft, command: CordonNode) -> bool:
    """Files the party's wish; False when it stands as it was."""
    known = draft.get(CordonRow, (command.node_id, command.owner))
    row = CordonRow(
        node_id=command.node_id,
        owner=command.owner,
        kind=command.kind,
        reason=command.reason[:MAX_REASON],
        actor=command.actor.name,
        at_ms=draft.now_ms,
    )
    if known is None:
        if not command.kind:
            return False
        draft.insert(row)
        return True
    if (known.kind, known.reason) == (row.kind, row.reason):
        return False
    draft.update(row)
    return True


def _go_on(draft: Draft, node_id: str) -> None:
    """What waited for the end of the drain is sent."""
    waiting = {task.operation_id: None for task in draft.open_tasks_on(node_id) if task.state == QUEUED}
    for operation_id in waiting:
        fill(draft, operation_id)
