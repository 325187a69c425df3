"""The machine of an allocation and the choice of its nodes: tables and pure functions over rows (OD-15, AL-01, AL-11).

allocation   requested ─▶ provisioning ─▶ active ─▶ releasing ─▶ released
                 └──────────┴──────────────────────────┴──────▶ failed ─▶ releasing (a retry)
a node's chain   provision; then deprovision ─▶ identity_revoke ─▶ reclaim_verify, each after the success before
a node   health: ok, degraded, cleaning, quarantined    scheduling: schedulable, cordoned, draining
         reclaim: clean, leased, dirty
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.base.errors import error
from hostler.control.kernel.allocation_rows import CordonRow
from hostler.control.kernel.allocation_settings import DEPROVISION, REVOKE, VERIFY
from hostler.control.kernel.rows import NodeRow

POOL = "_pool"  # org and project of a node that nobody holds; no tenant can have that name

REQUESTED, PROVISIONING, ACTIVE = "requested", "provisioning", "active"
RELEASING, RELEASED, FAILED = "releasing", "released", "failed"
ALLOCATION_STATES = (REQUESTED, PROVISIONING, ACTIVE, RELEASING, RELEASED, FAILED)
ALLOCATION: dict[tuple[str, str], str] = {
    (REQUESTED, "place"): PROVISIONING,
    (REQUESTED, "release"): RELEASED,
    (REQUESTED, "fail"): FAILED,
    (PROVISIONING, "ready"): ACTIVE,
    (PROVISIONING, "fail"): FAILED,
    (PROVISIONING, "release"): RELEASING,
    (ACTIVE, "release"): RELEASING,
    (ACTIVE, "fail"): FAILED,  # every node of it was revoked
    (RELEASING, "clean"): RELEASED,
    (RELEASING, "fail"): FAILED,
    (FAILED, "retry"): RELEASING,
}

# what a node of an allocation is at
L_PROVISIONING, L_ACTIVE, L_RELEASING = "provisioning", "active", "releasing"
L_CLEAN, L_QUARANTINED, L_HELD, L_ABANDONED = "clean", "quarantined", "held", "abandoned"
LEASE_STATES = (L_PROVISIONING, L_ACTIVE, L_RELEASING, L_CLEAN, L_QUARANTINED, L_HELD, L_ABANDONED)
LEASE_ENDED = frozenset({L_CLEAN, L_ABANDONED})
LEASE_STUCK = frozenset({L_QUARANTINED, L_HELD})

WAITING, RUNNING, SUCCEEDED, LINK_FAILED = "waiting", "running", "succeeded", "failed"
LINK_STATES = (WAITING, RUNNING, SUCCEEDED, LINK_FAILED)
NEXT = {DEPROVISION: REVOKE, REVOKE: VERIFY}

OK, DEGRADED, CLEANING, QUARANTINED = "ok", "degraded", "cleaning", "quarantined"
HEALTH = (OK, DEGRADED, CLEANING, QUARANTINED)
SCHEDULABLE, CORDONED, DRAINING = "schedulable", "cordoned", "draining"
SCHEDULING = (SCHEDULABLE, CORDONED, DRAINING)
CLEAN, LEASED, DIRTY = "clean", "leased", "dirty"
RECLAIM = (CLEAN, LEASED, DIRTY)


def step(state: str, event: str, what: str) -> str:
    """The allocation's next state. Raises `allocation_state` where `event` does not follow."""
    following = ALLOCATION.get((state, event))
    if following is None:
        raise error("allocation_state", f"{what} is {state}, and {event} does not follow from there")
    return following


def assignable(node: NodeRow, *, unverified: bool = True) -> bool:
    """Whether a tenant may be given the node now (AL-07, AL-11): every axis has to say yes.

    Args:
        unverified: whether a node that has no baseline yet may be lent.
    """
    return (
        node.state == "active"
        and node.connection == "connected"
        and not node.hold
        and node.org_id == POOL
        and not node.allocation_id
        and node.reclaim == CLEAN
        and (unverified or bool(node.baseline_of))
        and node.health == OK
        and node.scheduling == SCHEDULABLE
    )


def choose(
    nodes: Iterable[NodeRow],
    count: int,
    labels: Mapping[str, str],
    named: Sequence[str] = (),
    *,
    unverified: bool = True,
) -> list[NodeRow] | None:
    """The nodes for an allocation, or None while there are too few.

    Args:
        named: node ids or names to choose among; empty for any.
        unverified: see `assignable`.
    """
    fitting = [node for node in nodes if assignable(node, unverified=unverified) and fits(node, labels, named)]
    fitting.sort(key=lambda node: (node.reclaimed_at_ms, node.node_id))  # the longest idle first
    return fitting[:count] if len(fitting) >= count else None


def fits(node: NodeRow, labels: Mapping[str, str], named: Sequence[str]) -> bool:
    """Whether the node is one of those that are wanted, free or not."""
    if named and node.node_id not in named and node.name not in named:
        return False
    own: dict[str, str] = msgspec.json.decode(node.labels) if labels else {}
    return all(own.get(name) == value for name, value in labels.items())


def scheduling_of(cordons: Iterable[CordonRow]) -> str:
    """The strongest wish of any party."""
    kinds = {cordon.kind for cordon in cordons}
    if DRAINING in kinds:
        return DRAINING
    return CORDONED if CORDONED in kinds else SCHEDULABLE


def resting_health(node: NodeRow) -> str:
    """The health of a node that is neither quarantined nor being cleaned."""
    return DEGRADED if node.storage != "ok" or node.drift else OK


def breaker_opens(failed_before: int, fleet: int, percent: int, at_least: int) -> bool:
    """Whether one more failed verification would take too much of the pool (R3)."""
    would = failed_before + 1
    return would >= at_least and would * 100 > fleet * percent
