"""What moves allocations: nodes that are free, links that end, time that passes (AL-03, AL-11).

Every decision ends here (`follow`): an operation's end moves a chain, a chain an allocation, a freed node a queue.
"""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import allocation_events as told
from hostler.control.kernel import chain, node_probe, task_probe
from hostler.control.kernel.allocation_queue import Claims, in_order, wishes_of
from hostler.control.kernel.allocation_rows import AllocationRow, LeaseRow
from hostler.control.kernel.allocation_settings import PROVISION
from hostler.control.kernel.allocation_states import (
    ACTIVE,
    FAILED,
    L_ACTIVE,
    L_PROVISIONING,
    LEASE_ENDED,
    LEASE_STUCK,
    LEASED,
    PROVISIONING,
    RELEASED,
    RELEASING,
    REQUESTED,
    assignable,
    choose,
    fits,
    step,
)
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, OperationRow
from hostler.control.kernel.tasks import node_of, operation_of
from hostler.control.kernel.transitions import FINAL

replace = msgspec.structs.replace
EXPIRE_LIMIT = 200


def try_place(draft: Draft, allocation: AllocationRow, held: frozenset[str]) -> bool:
    """Takes nodes of the pool in the same decision that sees them free (AL-11), but none that others hold back."""
    pool = (node for node in draft.current(draft.view.pool_nodes()) if node.node_id not in held)
    unverified = draft.settings.allocations.lend_unverified
    chosen = choose(pool, allocation.node_count, *wishes_of(allocation), unverified=unverified)
    if chosen is None:
        return False
    allocation = move(draft, allocation, "place")
    told.said(draft, allocation, "allocation.provisioning", nodes=[node.node_id for node in chosen])
    for node in chosen:
        taken = replace(
            node,
            org_id=allocation.org_id,
            project_id=allocation.project_id,
            allocation_id=allocation.allocation_id,
            reclaim=LEASED,
        )
        draft.update(taken)
        draft.insert(LeaseRow(allocation_id=allocation.allocation_id, node_id=node.node_id))
        told.node(draft, allocation, taken, "node.leased")
    for node in chosen:
        lease = chain.lease_of(draft, allocation.allocation_id, node.node_id)
        chain.start(draft, allocation_of(draft, allocation.allocation_id), lease, PROVISION)
    draft.moved[allocation.allocation_id] = None
    return True


def follow(draft: Draft) -> None:
    """Called before every decision is handed out: whatever ended in it may move a chain, an allocation, a queue."""
    while draft.touched or draft.freed or draft.moved:
        while draft.touched:
            operation_id, node_id = next(iter(draft.touched))
            del draft.touched[operation_id, node_id]
            _after(draft, operation_of(draft, operation_id), node_id)
        settle_all(draft)
        if draft.freed:
            _give_out(draft)


def _give_out(draft: Draft) -> None:
    """To whoever waits and has use for what came free; thousands may come back at once, so cheap questions first."""
    unverified = draft.settings.allocations.lend_unverified
    freed = (node_of(draft, node_id) for node_id in draft.freed)
    came = [node for node in freed if assignable(node, unverified=unverified)]
    draft.freed.clear()
    if not came:
        return
    room: int | None = None
    claims = Claims(draft)
    for allocation in in_order(draft.current(draft.view.waiting_allocations())):
        room = draft.view.free_nodes() + len(came) if room is None else room
        if room <= len(claims.held):
            return
        wanted = allocation.node_count <= room - len(claims.held)
        if wanted and _has_use(allocation, came) and try_place(draft, allocation, claims.held):
            room -= allocation.node_count
        else:
            claims.add(allocation)


def _has_use(allocation: AllocationRow, came: list[NodeRow]) -> bool:
    labels, named = wishes_of(allocation)
    return any(fits(node, labels, named) for node in came)


def _after(draft: Draft, operation: OperationRow, node_id: str) -> None:
    if operation.operation_type == task_probe.TYPE and operation.status in FINAL:
        task_probe.answered(draft, operation, node_id)
    if operation.linked_allocation_id:
        moved = chain.follow(draft, operation, node_id)
        if moved is not None:
            draft.moved[moved.allocation_id] = None
    elif node_probe.is_probe(draft, operation):
        node_probe.ended(draft, operation, node_id)


def node_revoked(draft: Draft, allocation_id: str, node_id: str) -> None:
    """A node of an allocation lost its identity."""
    lease = draft.get(LeaseRow, (allocation_id, node_id))
    if lease is not None and lease.state not in LEASE_ENDED:
        chain.abandon(draft, allocation_of(draft, allocation_id), lease)
        draft.moved[allocation_id] = None


def expire(draft: Draft) -> None:
    """Links that took too long, and allocations that waited too long for nodes."""
    for link in draft.current(draft.view.overdue_links(draft.now_ms, EXPIRE_LIMIT)):
        moved = chain.overdue(draft, link)
        if moved is not None:
            draft.moved[moved.allocation_id] = None
    for allocation in draft.current(draft.view.waiting_allocations()):
        if allocation.state == REQUESTED and allocation.deadline_ms <= draft.now_ms:
            _fail(draft, allocation, "no_capacity", "no nodes were free in time")
    _look_again(draft)


def _look_again(draft: Draft) -> None:
    """A claim may have lapsed with a node that went, or with the request itself: what it held is given out."""
    after = draft.settings.allocations.reserve_after_ms
    waiting = in_order(draft.current(draft.view.waiting_allocations())) if after else []
    if waiting and draft.now_ms - waiting[0].created_at_ms >= after:
        wake_queue(draft)


def wake_queue(draft: Draft) -> None:
    """Every node of the pool is looked at again at the end of the decision."""
    draft.freed.update(dict.fromkeys(node.node_id for node in draft.current(draft.view.pool_nodes())))


def settle_all(draft: Draft) -> None:
    """Each allocation of which something moved, as its nodes make it."""
    while draft.moved:
        allocation_id = next(iter(draft.moved))
        del draft.moved[allocation_id]
        _settle(draft, allocation_of(draft, allocation_id))


def _settle(draft: Draft, allocation: AllocationRow) -> None:
    leases = chain.leases_of(draft, allocation.allocation_id)
    over = all(lease.state in LEASE_ENDED for lease in leases)
    failed = next((lease for lease in leases if lease.error_code and lease.state not in LEASE_ENDED), None)
    if allocation.state == PROVISIONING:
        _settle_provisioning(draft, allocation, leases, failed)
    elif allocation.state == ACTIVE and over:
        _fail(draft, allocation, "revoked", "every node of it was revoked")
    elif allocation.state == RELEASING and over:
        told.said(draft, move(draft, allocation, "clean", finished_at_ms=draft.now_ms), "allocation.released")
    elif allocation.state == RELEASING and any(lease.state in LEASE_STUCK for lease in leases):
        stuck = next(lease for lease in leases if lease.state in LEASE_STUCK)
        _fail(draft, allocation, stuck.error_code, f"node {stuck.node_id}: {stuck.error_message}")
    elif allocation.state == FAILED and over and not allocation.finished_at_ms:
        draft.update(replace(allocation, finished_at_ms=draft.now_ms))


def _settle_provisioning(
    draft: Draft, allocation: AllocationRow, leases: list[LeaseRow], failed: LeaseRow | None
) -> None:
    standing = [lease for lease in leases if lease.state not in LEASE_ENDED]
    if failed is not None or not standing or len(standing) < len(leases):
        code = failed.error_code if failed else "revoked"
        said = failed.error_message if failed else "a node was revoked"
        allocation = _fail(draft, allocation, code, said)
        for lease in standing:
            if lease.state in (L_PROVISIONING, L_ACTIVE):
                chain.begin_release(draft, allocation, lease)
        draft.moved[allocation.allocation_id] = None
    elif all(lease.state == L_ACTIVE for lease in leases):
        told.said(draft, move(draft, allocation, "ready", active_at_ms=draft.now_ms), "allocation.active")
        draft.look_at(allocation.org_id, allocation.project_id, allocation.allocation_id)


def _fail(draft: Draft, allocation: AllocationRow, code: str, message: str) -> AllocationRow:
    over = all(lease.state in LEASE_ENDED for lease in chain.leases_of(draft, allocation.allocation_id))
    failed = move(
        draft,
        allocation,
        "fail",
        error_code=code,
        error_message=message[:500],
        finished_at_ms=draft.now_ms if over else 0,
    )
    told.said(draft, failed, "allocation.failed", error_code=code, message=message[:500])
    return failed


def move(draft: Draft, allocation: AllocationRow, event: str, **changes: Any) -> AllocationRow:
    state = step(allocation.state, event, f"allocation {allocation.allocation_id}")
    if state == RELEASED:
        changes.setdefault("finished_at_ms", draft.now_ms)
    moved = replace(allocation, state=state, **changes)
    draft.update(moved)
    if allocation.state == REQUESTED and event != "place":
        wake_queue(draft)  # it may have held nodes back
    return moved


def allocation_of(draft: Draft, allocation_id: str) -> AllocationRow:
    allocation = draft.get(AllocationRow, allocation_id)
    if allocation is None:
        raise error("not_found", f"there is no allocation {allocation_id}")
    return allocation
