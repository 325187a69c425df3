"""What requests about allocations and node policy carry, and their answers; see `bodies`."""

from typing import Annotated, Any

import msgspec

from hostler.control.api.bodies import END, Name, NameOrNone

Reason = Annotated[str, msgspec.Meta(max_length=500)]
SomeReason = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class NewAllocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a request for nodes.

    Attributes:
        node_count: how many nodes of the pool.
        labels: all must match.
        nodes: names or ids to choose among; for a platform_admin.
        inputs: each goes by its name to every link whose profile asks for it.
        profile: the provision profile as `type@version`; without it the default.
        external_id: the caller's own id: the same id and body give the same allocation.
        org_id: the tenant, where the caller has none and the project owns nothing yet.
    """

    node_count: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    labels: dict[str, str] = {}
    nodes: tuple[str, ...] = ()
    inputs: dict[str, Any] = {}
    profile: Annotated[str, msgspec.Meta(max_length=200)] = ""
    external_id: Annotated[str, msgspec.Meta(max_length=200, pattern=rf"^[A-Za-z0-9@._:/-]*{END}")] = ""
    org_id: NameOrNone = ""


class AllocationRequested(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false when the external id had been used with the same body."""

    allocation_id: str
    state: str
    created: bool


class AllocationState(msgspec.Struct, frozen=True):
    allocation_id: str
    state: str


class Why(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the audit will say of it."""

    reason: SomeReason


class Cordon(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`owner` is the party in whose name: each lifts its own cordon and nobody else's."""

    owner: Name = "operator"
    reason: Reason = ""


class NodeScheduling(msgspec.Struct, frozen=True):
    """The strongest wish of all parties: schedulable, cordoned or draining."""

    node_id: str
    scheduling: str


class NodeHealth(msgspec.Struct, frozen=True):
    node_id: str
    health: str


class Probed(msgspec.Struct, frozen=True):
    """The operation is one of `project_id`: the pool's own, or that of the tenant who has the node."""

    operation_id: str
    project_id: str


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that recovery did; the operation, where there is one, is of `project_id`."""

    what: str
    text: str
    operation_id: str = ""
    project_id: str = ""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for an operation; `remains`: what recovery cannot mend, each with what would."""

    operation_id: str
    did: tuple[Action, ...]
    remains: tuple[str, ...]


class NodeRecovered(msgspec.Struct, frozen=True, kw_only=True):
    """`remains`: what recovery cannot mend, each with what would."""

    node_id: str
    did: tuple[Action, ...]
    remains: tuple[str, ...]


class Breaker(msgspec.Struct, frozen=True):
    """`opened_at_ms` is 0 while it is closed."""

    opened_at_ms: int
