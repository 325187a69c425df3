"""Fairness of the queue for nodes: what frees up is kept for a request that has waited long enough (AL-11).

Small requests would otherwise take every node that comes free, and a large one would wait for ever. After
`reserve_after_ms` a waiting request claims the free nodes that it has use for, as many as it asked for; younger ones
get what nobody older claims. So it is served once enough of the leases that stood when it began to claim have ended.
A claim that the pool could not serve holds nothing back.
"""

from collections.abc import Iterable, Sequence

import msgspec

from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import CLEANING, OK, REQUESTED, SCHEDULABLE, assignable, fits
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow

MOST_CLAIMS = 4  # requests that hold nodes back at a time, oldest first


class Claims:
    """What older requests hold back while a queue is gone through, oldest first. Reads the pool once at most."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._count = 0
        self.held: frozenset[str] = frozenset()

    def add(self, allocation: AllocationRow) -> None:
        """The request goes on waiting; if it has waited long enough, it claims."""
        limits = self._draft.settings.allocations
        after = limits.reserve_after_ms
        if not after or self._count >= MOST_CLAIMS or self._draft.now_ms - allocation.created_at_ms < after:
            return
        self._count += 1
        pool = list(self._draft.current(self._draft.view.pool_nodes()))
        self.held |= claimed(allocation, pool, self.held, unverified=limits.lend_unverified)


def older_claims(draft: Draft, asking: AllocationRow) -> frozenset[str]:
    """Free nodes that are kept for requests older than the one that asks."""
    claims = Claims(draft)
    if draft.settings.allocations.reserve_after_ms:
        for row in in_order(draft.current(draft.view.waiting_allocations())):
            if _rank(row) < _rank(asking):
                claims.add(row)
    return claims.held


def in_order(waiting: Iterable[AllocationRow]) -> list[AllocationRow]:
    """Those that wait, oldest first."""
    return sorted((row for row in waiting if row.state == REQUESTED), key=_rank)


def claimed(
    allocation: AllocationRow, pool: Sequence[NodeRow], held: frozenset[str] = frozenset(), *, unverified: bool = True
) -> frozenset[str]:
    """What a request holds back of a pool, beside what others hold. Pure."""
    labels, named = wishes_of(allocation)
    fitting = [node for node in pool if fits(node, labels, named)]
    if sum(map(_may_serve, fitting)) < allocation.node_count:
        return frozenset()
    free = [node for node in fitting if node.node_id not in held and assignable(node, unverified=unverified)]
    free.sort(key=lambda node: (node.reclaimed_at_ms, node.node_id))
    return frozenset(node.node_id for node in free[: allocation.node_count])


def wishes_of(allocation: AllocationRow) -> tuple[dict[str, str], tuple[str, ...]]:
    """Labels and names that its nodes are to have."""
    labels: dict[str, str] = msgspec.json.decode(allocation.labels)
    return labels, msgspec.json.decode(allocation.nodes, type=tuple[str, ...])


def _rank(allocation: AllocationRow) -> tuple[int, str]:
    return allocation.created_at_ms, allocation.allocation_id


def _may_serve(node: NodeRow) -> bool:
    """Whether the node could be free one day as things stand, whoever has it now."""
    return (
        node.state == "active"
        and node.connection == "connected"
        and not node.hold
        and node.health in (OK, CLEANING)
        and node.scheduling == SCHEDULABLE
    )
