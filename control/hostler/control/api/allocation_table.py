"""The routes of allocations, quarantine and cordons; see `table`."""

from hostler.control.api import allocation_bodies as bodies
from hostler.control.api.route import Route
from hostler.control.api.routes import allocations, node_policy
from hostler.control.store import records
from hostler.control.store.allocation_queries import AllocationSummary, AllocationView

_PAGE = ("cursor", "page_size", "state")
_ALLOCATIONS = "/api/v1/projects/{project_id}/allocations"
_ALLOCATION = f"{_ALLOCATIONS}/{{allocation_id}}"
_NODE = "/api/v1/admin/nodes/{node_id}"
_BREAKER = "/api/v1/admin/quarantine/breaker"

ALLOCATION_ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        _ALLOCATIONS,
        "allocations.create",
        allocations.create,
        "Ask for nodes of the pool",
        body=bodies.NewAllocation,
        action="allocation.create",
        answer=bodies.AllocationRequested,
    ),
    Route(
        "GET",
        _ALLOCATIONS,
        "allocations.read",
        allocations.listing,
        "List allocations, newest first",
        query=_PAGE,
        answer=records.Page[AllocationSummary],
    ),
    Route(
        "GET",
        _ALLOCATION,
        "allocations.read",
        allocations.get,
        "Show an allocation with each node's chain",
        answer=AllocationView,
    ),
    Route(
        "POST",
        f"{_ALLOCATION}/release",
        "allocations.release",
        allocations.release,
        "Release an allocation",
        action="allocation.release",
        answer=bodies.AllocationState,
    ),
    Route(
        "POST",
        f"{_ALLOCATION}/force-release",
        "allocations.admin",
        allocations.force_release,
        "Release from whatever state, and try failed links again",
        body=bodies.Why,
        action="allocation.force_release",
        answer=bodies.AllocationState,
    ),
    Route(
        "POST",
        f"{_ALLOCATION}/retry",
        "allocations.release",
        allocations.retry,
        "Try the failed links of an allocation again",
        action="allocation.retry",
        answer=bodies.AllocationState,
    ),
    Route(
        "GET",
        f"{_ALLOCATION}/events",
        "allocations.read",
        allocations.events,
        "The allocation's events as server-sent events",
        events=True,
        answer=records.EventView,
    ),
    Route(
        "GET",
        "/api/v1/admin/allocations",
        "allocations.admin",
        allocations.everywhere,
        "List the allocations of every project",
        query=_PAGE,
        answer=records.Page[AllocationSummary],
    ),
    Route(
        "POST",
        f"{_NODE}/cordon",
        "nodes.admin",
        node_policy.cordon,
        "Let no allocation choose a node",
        body=bodies.Cordon,
        action="node.cordon",
        answer=bodies.NodeScheduling,
    ),
    Route(
        "POST",
        f"{_NODE}/drain",
        "nodes.admin",
        node_policy.drain,
        "Let a node finish what runs and start nothing new",
        body=bodies.Cordon,
        action="node.drain",
        answer=bodies.NodeScheduling,
    ),
    Route(
        "POST",
        f"{_NODE}/uncordon",
        "nodes.admin",
        node_policy.uncordon,
        "Lift one's own cordon or drain",
        body=bodies.Cordon,
        action="node.uncordon",
        answer=bodies.NodeScheduling,
    ),
    Route(
        "POST",
        f"{_NODE}/quarantine",
        "quarantine.admin",
        node_policy.quarantine,
        "Put a node into quarantine",
        body=bodies.Why,
        action="node.quarantine",
        answer=bodies.NodeHealth,
    ),
    Route(
        "POST",
        f"{_NODE}/clear",
        "quarantine.admin",
        node_policy.clear,
        "Clear a node's quarantine",
        body=bodies.Why,
        action="node.clear",
        answer=bodies.NodeHealth,
    ),
    Route(
        "POST",
        f"{_NODE}/probe",
        "nodes.admin",
        node_policy.probe,
        "Verify that a node is clean",
        action="node.probe",
        answer=bodies.Probed,
    ),
    Route(
        "POST",
        f"{_NODE}/recover",
        "nodes.admin",
        node_policy.recover,
        "Do the next thing for a node in trouble, and say what remains",
        body=bodies.Why,
        action="node.recover",
        answer=bodies.NodeRecovered,
    ),
    Route(
        "GET", _BREAKER, "quarantine.admin", node_policy.breaker, "Show the quarantine breaker", answer=bodies.Breaker
    ),
    Route(
        "POST",
        f"{_BREAKER}/close",
        "quarantine.admin",
        node_policy.close_breaker,
        "Close the quarantine breaker",
        body=bodies.Why,
        action="quarantine.close_breaker",
        answer=bodies.Breaker,
    ),
)
