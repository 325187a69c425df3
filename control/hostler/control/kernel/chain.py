"""A node's chain inside an allocation: one link after the other, each an operation, each begun by a decision here.

    provision ─▶ (active) ─▶ deprovision ─▶ identity_revoke ─▶ reclaim_verify ─▶ clean

A link begins only when the one before it has succeeded (AL-04..06). One that fails or takes too long puts the node
into quarantine, and its tenant's access is revoked outside the chain (OD-17, X23).
"""

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.kernel import allocation_events as told
from hostler.control.kernel import quarantine
from hostler.control.kernel.allocation_rows import AllocationRow, LeaseRow, LinkRow
from hostler.control.kernel.allocation_settings import DEPROVISION, PROVISION, REVOKE, VERIFY
from hostler.control.kernel.allocation_states import (
    CLEAN,
    CLEANING,
    DIRTY,
    L_ABANDONED,
    L_ACTIVE,
    L_CLEAN,
    L_HELD,
    L_QUARANTINED,
    L_RELEASING,
    LEASE_ENDED,
    LEASE_STUCK,
    LINK_FAILED,
    NEXT,
    POOL,
    PROVISIONING,
    QUARANTINED,
    RUNNING,
    SUCCEEDED,
    WAITING,
    resting_health,
)
from hostler.control.kernel.cancel import cancel_open_tasks, retry_operation
from hostler.control.kernel.chain_operations import forced_revoke, place_link
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, OperationRow
from hostler.control.kernel.tasks import node_of, operation_of
from hostler.control.kernel.transitions import FINAL

replace = msgspec.structs.replace


def leases_of(draft: Draft, allocation_id: str) -> list[LeaseRow]:
    rows = draft.rows_of(LeaseRow, draft.view.leases_of(allocation_id))
    return [row for row in rows if row.allocation_id == allocation_id]


def lease_of(draft: Draft, allocation_id: str, node_id: str) -> LeaseRow:
    lease = draft.get(LeaseRow, (allocation_id, node_id))
    if lease is None:
        raise error("internal_error", f"allocation {allocation_id} has no node {node_id}")
    return lease


def link_of(draft: Draft, lease: LeaseRow) -> LinkRow:
    link = draft.get(LinkRow, (lease.allocation_id, lease.node_id, lease.link))
    if link is None:
        raise error("internal_error", f"link {lease.link} of node {lease.node_id} is absent")
    return link


# -- beginning ------------------------------------------------------------------------------------


def start(draft: Draft, allocation: AllocationRow, lease: LeaseRow, link: str) -> None:
    """Begins a link. The second of the release waits until nothing of the tenant runs on the node."""
    known = draft.get(LinkRow, (lease.allocation_id, lease.node_id, link))
    row = LinkRow(
        allocation_id=lease.allocation_id,
        node_id=lease.node_id,
        link=link,
        ref=draft.settings.allocations.ref(link, allocation.provision_ref),
        operation_id="",
        state=WAITING,
        tries=known.tries if known else 0,
        deadline_ms=draft.now_ms + draft.settings.allocations.limit_ms(link),
        started_at_ms=draft.now_ms,
    )
    if known is None:
        draft.insert(row)
    else:
        draft.update(row)
    draft.update(replace(lease, link=link))
    _submit(draft, allocation, row)


def _submit(draft: Draft, allocation: AllocationRow, link: LinkRow) -> None:
    if link.link == REVOKE and not _quiet(draft, link):
        return
    tries = link.tries + 1
    try:
        operation_id = place_link(draft, allocation, replace(link, tries=tries))
    except HostlerError as err:
        _failed(draft, allocation, replace(link, tries=tries), err.code, err.message)
        return
    running = replace(link, operation_id=operation_id, state=RUNNING, tries=tries)
    draft.update(running)
    told.link(draft, allocation, running)


def _quiet(draft: Draft, link: LinkRow) -> bool:
    """Nothing that the tenant asked for is open on the node."""
    return not any(
        operation_of(draft, task.operation_id).trigger_source == "tenant_request"
        for task in draft.open_tasks_on(link.node_id)
    )


def begin_release(draft: Draft, allocation: AllocationRow, lease: LeaseRow) -> None:
    """The node leaves the tenant's hands: dirty from here on, until its chain has ended clean."""
    node = node_of(draft, lease.node_id)
    if node.state != "active":
        abandon(draft, allocation, lease)
        return
    draft.update(replace(node, reclaim=DIRTY, **_cleaning(node)))
    lease = replace(lease, state=L_RELEASING)
    draft.update(lease)
    link = link_of(draft, lease)
    if link.link == PROVISION and link.state == RUNNING:
        # it ends first, or its time does
        cancel_open_tasks(draft, operation_of(draft, link.operation_id))
    elif lease.link == PROVISION:
        start(draft, allocation, lease, DEPROVISION)


def _cleaning(node: NodeRow) -> dict[str, str]:
    """A person's quarantine outlasts the chain; the chain's own gives way to the next try."""
    if node.health == QUARANTINED and node.quarantined_by != quarantine.CHAIN:
        return {}
    return {"health": CLEANING, "health_reason": ""}


# -- going on -------------------------------------------------------------------------------------


def follow(draft: Draft, operation: OperationRow, node_id: str) -> AllocationRow | None:
    """After something on a node ended: the chain's next step, if there is one. → the allocation, if it moved."""
    allocation = draft.get(AllocationRow, operation.linked_allocation_id or "")
    lease = draft.get(LeaseRow, (operation.linked_allocation_id, node_id))
    if allocation is None or lease is None or lease.state in LEASE_ENDED:
        return None
    if node_of(draft, node_id).state != "active":
        abandon(draft, allocation, lease)
        return allocation
    link = link_of(draft, lease)
    if link.state == RUNNING:
        done = operation_of(draft, link.operation_id)
        if done.status not in FINAL:
            return None
        if done.status == "succeeded":
            _succeeded(draft, allocation, lease, link)
        else:
            _failed(draft, allocation, link, done.error_code or "canceled", done.error_message)
    elif link.state == WAITING:
        _submit(draft, allocation, link)
    elif link.link == PROVISION and link.state == LINK_FAILED and _ended(draft, link):
        # it took too long, and has ended now: the node is cleaned
        begin_release(draft, allocation, lease)
    return allocation


def _ended(draft: Draft, link: LinkRow) -> bool:
    return not link.operation_id or operation_of(draft, link.operation_id).status in FINAL


def _succeeded(draft: Draft, allocation: AllocationRow, lease: LeaseRow, link: LinkRow) -> None:
    done = replace(link, state=SUCCEEDED, finished_at_ms=draft.now_ms)
    draft.update(done)
    told.link(draft, allocation, done)
    if link.link == PROVISION:
        if allocation.state == PROVISIONING:
            draft.update(replace(lease, state=L_ACTIVE))
        else:
            begin_release(draft, allocation, lease)
    elif link.link == VERIFY:
        _clean(draft, allocation, lease)
    else:
        start(draft, allocation, lease, NEXT[link.link])


def _clean(draft: Draft, allocation: AllocationRow, lease: LeaseRow) -> None:
    """Proved clean by a whole chain: back in the pool, in the decision that says so (AL-11)."""
    draft.update(replace(lease, state=L_CLEAN, finished_at_ms=draft.now_ms, error_code="", error_message=""))
    node = node_of(draft, lease.node_id)
    free = replace(
        node,
        org_id=POOL,
        project_id=POOL,
        allocation_id="",
        reclaim=CLEAN,
        reclaimed_at_ms=draft.now_ms,
        baseline_of=lease.allocation_id,
    )
    if node.health != QUARANTINED or node.quarantined_by == quarantine.CHAIN:
        free = replace(free, health=resting_health(node), health_reason="", quarantined_at_ms=0, quarantined_by="")
    draft.update(free)
    draft.freed[node.node_id] = None
    told.node(draft, allocation, free, "node.reclaimed")


def _failed(draft: Draft, allocation: AllocationRow, link: LinkRow, code: str, message: str) -> None:
    """Of a link. A failed provision is cleaned up at once; any other failure leaves the node in quarantine."""
    lease = lease_of(draft, link.allocation_id, link.node_id)
    failed = replace(link, state=LINK_FAILED, finished_at_ms=draft.now_ms, error_code=code, error_message=message[:500])
    draft.update(failed)
    told.link(draft, allocation, failed)
    lease = replace(lease, error_code=code, error_message=f"{link.link}: {message}"[:500])
    draft.update(lease)
    if link.link == PROVISION and _ended(draft, link):
        if lease.state == L_RELEASING:  # its release waited for this end
            start(draft, allocation, lease, DEPROVISION)
        return
    _lock_out(draft, allocation, lease, failed)


def _lock_out(draft: Draft, allocation: AllocationRow, lease: LeaseRow, link: LinkRow) -> None:
    """Quarantine, and an access revoke that waits for nothing (OD-17)."""
    node = replace(node_of(draft, lease.node_id), reclaim=DIRTY)
    draft.update(node)
    reason = f"{link.link} of allocation {allocation.allocation_id}: {link.error_code}"
    stuck = L_QUARANTINED
    if link.link != VERIFY:
        quarantine.enter(draft, node, reason, error_code=link.error_code)
    elif not quarantine.after_failed_verification(draft, node, reason, link.error_code):
        stuck = L_HELD
    draft.update(replace(lease, state=stuck))
    if link.operation_id:
        cancel_open_tasks(draft, operation_of(draft, link.operation_id))
    if link.link != VERIFY:
        forced_revoke(draft, allocation, lease_of(draft, lease.allocation_id, lease.node_id), link)


def abandon(draft: Draft, allocation: AllocationRow, lease: LeaseRow) -> None:
    """The node was revoked: it never comes back under this identity, so there is nothing left to clean."""
    gone = replace(lease, state=L_ABANDONED, finished_at_ms=draft.now_ms)
    draft.update(gone)
    told.node(draft, allocation, node_of(draft, lease.node_id), "allocation.node_abandoned")


def overdue(draft: Draft, link: LinkRow) -> AllocationRow | None:
    """A link that took longer than it may: as good as failed (AL-07). → the allocation, if it moved."""
    allocation = draft.get(AllocationRow, link.allocation_id)
    lease = lease_of(draft, link.allocation_id, link.node_id)
    if allocation is None or lease.link != link.link or link.state not in (WAITING, RUNNING):
        return None
    limit = draft.settings.allocations.limit_ms(link.link) // 1000
    _failed(draft, allocation, link, "timeout", f"the link took longer than {limit} s")
    return allocation


def again(draft: Draft, allocation: AllocationRow, lease: LeaseRow) -> str:
    """The link that failed once more: a retry of its operation, or a new one where the profile has changed.

    → id of the operation that failed (AL-09).

    Raises:
        HostlerError: `operation_not_final` while that operation has not ended.
    """
    if lease.state not in LEASE_STUCK:
        return ""
    link = link_of(draft, lease)
    if not _ended(draft, link):
        raise error("operation_not_final", f"operation {link.operation_id} of link {link.link} has not ended yet")
    node = node_of(draft, lease.node_id)
    draft.update(replace(node, **_cleaning(node)))
    lease = replace(lease, state=L_RELEASING)
    draft.update(lease)
    if link.link == PROVISION:
        start(draft, allocation, lease, DEPROVISION)
        return link.operation_id
    before = draft.get(OperationRow, link.operation_id)
    same = link.ref == draft.settings.allocations.ref(link.link, allocation.provision_ref)
    if before is None or before.status == "succeeded" or not same:
        start(draft, allocation, lease, link.link)
        return link.operation_id
    retry_operation(draft, before)
    running = replace(
        link,
        state=RUNNING,
        tries=link.tries + 1,
        deadline_ms=draft.now_ms + draft.settings.allocations.limit_ms(link.link),
        started_at_ms=draft.now_ms,
        finished_at_ms=0,
        error_code="",
        error_message="",
    )
    draft.update(running)
    told.link(draft, allocation, running)
    return link.operation_id
