"""Allocations of a project, for tenants and for an orchestrator that stays the source of truth (API-22)."""

from collections.abc import AsyncIterator
from typing import Any

from hostler.base.errors import error
from hostler.control.api import pages, sse
from hostler.control.api.allocation_bodies import AllocationRequested, AllocationState, NewAllocation, Why
from hostler.control.api.call import Call
from hostler.control.kernel.allocation_commands import (
    AllocationCreated,
    CreateAllocation,
    ForceReleaseAllocation,
    ReleaseAllocation,
    RetryAllocation,
)
from hostler.control.kernel.allocation_states import ALLOCATION_STATES
from hostler.control.store.allocation_queries import AllocationView

_QUIET_S = 15.0
_BATCH = 500


async def create(call: Call) -> tuple[int, AllocationRequested]:
    """202 with `allocation_id`; 200 when the external id had been used with the same body."""
    project_id = await call.project()
    body = await call.body(NewAllocation)
    owner = await call.parts.projects.org_of(project_id)
    org_id = call.principal.org_id or body.org_id or owner
    if (owner or org_id) != org_id or (body.org_id and body.org_id != org_id):
        raise error("target_not_owned", f"project {project_id!r} belongs to another tenant", pointer="/org_id")
    made: AllocationCreated = await call.execute(
        CreateAllocation(
            actor=call.principal.actor(),
            org_id=org_id,
            project_id=project_id,
            node_count=body.node_count,
            labels=body.labels,
            nodes=body.nodes,
            inputs=body.inputs,
            profile=body.profile,
            external_id=body.external_id,
            correlation_id=call.correlation_id,
        )
    )
    answer = AllocationRequested(allocation_id=made.allocation_id, state=made.state, created=made.created)
    return (202 if made.created else 200), answer


async def listing(call: Call) -> Any:
    return await _page(call, await call.project())


async def everywhere(call: Call) -> Any:
    return await _page(call, None)


async def _page(call: Call, project_id: str | None) -> Any:
    size, state = pages.size_of(call.query("page_size")), call.query("state")
    if state and state not in ALLOCATION_STATES:
        raise error("invalid_request", f"an allocation is never {state[:64]!r}", pointer="/state")
    return await call.engine.reader.allocations(project_id, call.query("cursor"), size, state)


async def get(call: Call) -> AllocationView:
    return await _own(call)


async def release(call: Call) -> tuple[int, AllocationState]:
    """202: the tenant's operations end, and every node's chain begins."""
    found = await _own(call)
    state = await call.execute(
        ReleaseAllocation(actor=call.principal.actor(), project_id=found.project_id, allocation_id=found.allocation_id)
    )
    return 202, AllocationState(found.allocation_id, state)


async def retry(call: Call) -> tuple[int, AllocationState]:
    """202: every link that failed is tried again."""
    found = await _own(call)
    state = await call.execute(
        RetryAllocation(actor=call.principal.actor(), project_id=found.project_id, allocation_id=found.allocation_id)
    )
    return 202, AllocationState(found.allocation_id, state)


async def force_release(call: Call) -> tuple[int, AllocationState]:
    """202: released from whatever state, failed links tried again."""
    found = await _own(call)
    body = await call.body(Why)
    state = await call.execute(
        ForceReleaseAllocation(actor=call.principal.actor(), allocation_id=found.allocation_id, reason=body.reason)
    )
    return 202, AllocationState(found.allocation_id, state)


async def events(call: Call) -> Any:
    """The allocation's events as they happen; ends when no node is in its hands any more."""
    found = await _own(call)
    start = sse.last_event_id(call.request.headers.get("last-event-id", ""))
    return sse.respond(_follow(call, found, start))


async def _follow(call: Call, found: AllocationView, after: int) -> AsyncIterator[bytes]:
    engine, topic = call.engine, f"allocations/{found.allocation_id}"
    while True:
        # mark and state first: what is stored after them is read in the next turn
        mark = engine.wakes.newest(topic)
        now = await engine.reader.allocation(found.project_id, found.allocation_id)
        while rows := await engine.reader.allocation_events(found.allocation_id, after, _BATCH):
            for row in rows:
                yield sse.event(row.type, row, row.id)
            after = rows[-1].id
        if now is None or now.finished_at_ms:
            yield sse.event("end", {"state": now.state if now else ""})
            return
        if not await call.is_still_welcome():
            return
        if not await engine.wakes.changed(topic, mark, _QUIET_S):
            yield sse.COMMENT


async def _own(call: Call) -> AllocationView:
    """The allocation in the path, of the project in the path. Raises `not_found`."""
    project_id, allocation_id = await call.project(), call.path("allocation_id")
    found = await call.engine.reader.allocation(project_id, allocation_id)
    if found is None:
        raise error("not_found", f"there is no allocation {allocation_id!r} in project {project_id!r}")
    return found
