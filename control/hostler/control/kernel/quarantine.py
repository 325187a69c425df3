"""Nodes that nobody may be given: quarantine, its end, and the breaker that keeps a bad check from taking the fleet.

Quarantine ends by a person who vouches for the node, or by a reclaim verification that it passed (AL-08).
"""

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import changes, events
from hostler.control.kernel.actor import KERNEL, Actor
from hostler.control.kernel.allocation_commands import ClearNode, CloseBreaker, QuarantineNode
from hostler.control.kernel.allocation_states import CLEANING, DIRTY, QUARANTINED, breaker_opens, resting_health
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import MetaRow, NodeRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace
BREAKER = "quarantine_breaker"  # meta: when it opened (Unix milliseconds), "" while closed
MAX_REASON = 500
_SAID = ("health", "health_reason", "quarantined_by")
PERSON = "person"
CHAIN = "chain"  # quarantined by a failed link, and let out by a passed one


def quarantine(draft: Draft, command: QuarantineNode) -> Decision:
    """By a person. What runs there goes on; nobody new is let in."""
    node = _active(draft, command.node_id)
    if node.health != QUARANTINED or node.quarantined_by == CHAIN:
        enter(draft, node, command.reason[:MAX_REASON], actor=command.actor)
    return draft.decision()


def enter(draft: Draft, node: NodeRow, reason: str, *, actor: Actor | None = None, **more: str) -> NodeRow:
    """The node is in quarantine from here on; with an actor, also a line of the audit."""
    by = PERSON if actor else node.quarantined_by or CHAIN
    held = replace(node, health=QUARANTINED, health_reason=reason, quarantined_at_ms=draft.now_ms, quarantined_by=by)
    draft.update(held)
    draft.events.append(
        events.node_event(
            "quarantine.entered",
            held,
            draft.now_ms,
            actor=actor,
            action="node.quarantine" if actor else "",
            change=changes.of_rows(node, held, *_SAID) if actor else None,
            error_code=more.pop("error_code", ""),
            reason=reason,
            allocation_id=node.allocation_id,
            **more,
        )
    )
    return held


def clear(draft: Draft, command: ClearNode) -> Decision:
    """By a person. A node whose lease has ended unclean gets out by its chain alone."""
    node = _active(draft, command.node_id)
    if node.health not in (QUARANTINED, CLEANING):
        return draft.decision()
    if node.reclaim == DIRTY:
        raise error(
            "node_leased",
            f"node {node.name} is still held by allocation {node.allocation_id}",
            hint="mend the node, then 'hostler allocations retry' or 'force-release'; a passed chain clears it",
            node_id=node.node_id,
        )
    lift(draft, node, command.reason[:MAX_REASON], actor=command.actor)
    return draft.decision()


def lift(draft: Draft, node: NodeRow, reason: str, *, actor: Actor | None = None) -> NodeRow:
    """Out of quarantine: by a person's word or a passed verification. Cordons stay as they are (R3)."""
    free = replace(
        node,
        health=resting_health(node),
        health_reason="",
        quarantined_at_ms=0,
        quarantined_by="",
    )
    draft.update(free)
    draft.freed[node.node_id] = None
    draft.events.append(
        events.node_event(
            "quarantine.cleared",
            free,
            draft.now_ms,
            actor=actor,
            action="node.clear" if actor else "",
            change=changes.of_rows(node, free, *_SAID),
            reason=reason,
        )
    )
    return free


def after_failed_verification(draft: Draft, node: NodeRow, reason: str, code: str) -> bool:
    """Quarantines the node, or holds it while the breaker is open; whether it is quarantined (R3)."""
    if is_open(draft) or _trips(draft, node):
        held = replace(node, health=CLEANING, health_reason=f"held by the breaker: {reason}")
        draft.update(held)
        draft.events.append(events.node_event("quarantine.held", held, draft.now_ms, error_code=code, reason=reason))
        return False
    enter(draft, node, reason, error_code=code)
    return True


def is_open(draft: Draft) -> bool:
    row = draft.get(MetaRow, BREAKER)
    return row is not None and row.value != ""


def _trips(draft: Draft, node: NodeRow) -> bool:
    limits = draft.settings.allocations
    fleet = [other for other in draft.current(draft.view.all_nodes()) if other.pool and other.state == "active"]
    since = draft.now_ms - limits.breaker_window_ms
    failed = sum(
        other.health == QUARANTINED and other.quarantined_at_ms > since and other.node_id != node.node_id
        for other in fleet
    )
    if not breaker_opens(failed, len(fleet), limits.breaker_percent, limits.breaker_nodes):
        return False
    _set(draft, str(draft.now_ms))
    draft.events.append(
        events.admin_event(
            "quarantine.breaker_opened",
            "quarantine/breaker",
            draft.now_ms,
            actor=KERNEL,
            action="",
            change=changes.between({"open": False}, {"open": True}),
            failed=failed + 1,
            fleet=len(fleet),
            percent=limits.breaker_percent,
        )
    )
    return True


def close_breaker(draft: Draft, command: CloseBreaker) -> Decision:
    """Failed verifications quarantine again; nodes that were held go on when their chain is tried again."""
    if is_open(draft):
        _set(draft, "")
        draft.events.append(
            events.admin_event(
                "quarantine.breaker_closed",
                "quarantine/breaker",
                draft.now_ms,
                actor=command.actor,
                action="quarantine.close_breaker",
                change=changes.between({"open": True}, {"open": False}),
                reason=command.reason[:MAX_REASON],
            )
        )
    return draft.decision()


def _set(draft: Draft, value: str) -> None:
    row = MetaRow(BREAKER, value)
    if draft.get(MetaRow, BREAKER) is None:
        draft.insert(row)
    else:
        draft.update(row)


def _active(draft: Draft, node_id: str) -> NodeRow:
    node = node_of(draft, node_id)
    if node.state != "active":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    return node
