"""Commands about allocations, quarantine and cordons; see `commands`."""

from typing import Any

import msgspec

from hostler.control.kernel.actor import Actor
from hostler.control.kernel.permitted import Answer


class CreateAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """→ `AllocationCreated`. The same `external_id` and body give the same allocation.

    Attributes:
        nodes: names or ids to choose among; empty for any of the pool.
        profile: the provision profile; "" for the default.
    """

    actor: Actor
    org_id: str
    project_id: str
    node_count: int
    labels: dict[str, str] = {}
    nodes: tuple[str, ...] = ()
    inputs: dict[str, Any] = {}
    profile: str = ""
    external_id: str = ""
    correlation_id: str
    answer: Answer | None = None  # of the policy engine, where there is one


class AllocationCreated(msgspec.Struct, frozen=True):
    """`created` is False when the external id had been used with the same body."""

    allocation_id: str
    created: bool
    state: str


class ReleaseAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """→ its state. The tenant's operations on it end, and every node's chain begins. Again: no change."""

    actor: Actor
    project_id: str
    allocation_id: str


class ForceReleaseAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """→ its state. By an administrator: releases it, and tries the links that failed again (AL-09)."""

    actor: Actor
    allocation_id: str
    reason: str = ""


class RetryAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """→ its state. Tries the failed links of its chains again, from the link that failed (AL-09)."""

    actor: Actor
    project_id: str
    allocation_id: str


class QuarantineNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. By a person; a leased node stays with its tenant and is not given to the next one."""

    actor: Actor
    node_id: str
    reason: str


class ClearNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A person vouches for a node that nobody holds (AL-08)."""

    actor: Actor
    node_id: str
    reason: str


class ProbeNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ operation id of a comparison with the last baseline, outside any chain. Passed on a node that nobody holds, it
    clears it. A node that has no baseline yet has its first one taken."""

    actor: Actor
    node_id: str
    correlation_id: str


class CordonNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ the node's scheduling. `owner` names the party; `kind` is cordoned, draining, or "" to lift its own."""

    actor: Actor
    node_id: str
    owner: str
    kind: str
    reason: str = ""


class CloseBreaker(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A person has looked into why so many verifications failed (R3)."""

    actor: Actor
    reason: str


AllocationCommand = (
    CreateAllocation
    | ReleaseAllocation
    | ForceReleaseAllocation
    | RetryAllocation
    | QuarantineNode
    | ClearNode
    | ProbeNode
    | CordonNode
    | CloseBreaker
)
