"""The event log of the caller's scope: in pages, or followed by server-sent events (API-23, EV-11)."""

from collections.abc import AsyncIterator
from typing import Any

from hostler.base.errors import error
from hostler.control.api import pages, sse
from hostler.control.api.authz import is_unlimited
from hostler.control.api.call import Call
from hostler.control.kernel.event_types import EVENT_TYPES
from hostler.control.store.apply import EVERYTHING
from hostler.control.store.pages import encode_cursor
from hostler.control.store.records import Page

_QUIET_S = 15.0  # then a comment keeps the connection open
_BATCH = 500
FAMILIES = frozenset(type_.partition(".")[0] for type_ in EVENT_TYPES)


async def listing(call: Call) -> Any:
    """A page may be empty and still have a cursor: the log goes on, with events of other scopes."""
    follow, type_ = call.query("follow"), call.query("type")
    if follow not in ("", "true", "false"):
        raise error("invalid_request", "follow is either true or false")
    if type_ and type_ not in EVENT_TYPES and type_ not in FAMILIES and not type_.endswith("_refused"):
        raise error("invalid_request", f"there is no event type {type_[:64]!r}", hint="docs/events.md lists them")
    org_id, project_id = await _scope(call)
    if follow == "true":
        after = sse.last_event_id(call.request.headers.get("last-event-id", "") or _position(call))
        return sse.respond(_follow(call, after, org_id, project_id, type_))
    size = pages.size_of(call.query("page_size"))
    after = pages.log_position(call.query("cursor"))
    found = await call.engine.reader.events_of_scope(after, size, org_id, project_id, type_)
    return Page(found.events, "" if found.is_last else encode_cursor(f"log:{found.seen}"))


def _position(call: Call) -> str:
    return str(pages.log_position(call.query("cursor"))) if call.query("cursor") else ""


async def _scope(call: Call) -> tuple[str | None, str | None]:
    """The tenant and project whose events the caller may see, narrowed to a project where one is named."""
    principal, wanted = call.principal, call.query("project_id")
    if wanted:
        org_id = await call.named_project(wanted)
        return None if is_unlimited(principal) else principal.org_id or org_id, wanted
    if is_unlimited(principal):
        return None, None
    return principal.org_id, principal.project_id or None


async def _follow(
    call: Call, after: int, org_id: str | None, project_id: str | None, type_: str
) -> AsyncIterator[bytes]:
    engine = call.engine
    while True:
        mark = engine.wakes.newest(EVERYTHING)  # first: what is stored after it is read in the next turn
        found = await engine.reader.events_of_scope(after, _BATCH, org_id, project_id, type_)
        for row in found.events:
            yield sse.event(row.type, row, row.id)
        after = found.seen
        if not await call.is_still_welcome():
            return
        if found.is_last and not await engine.wakes.changed(EVERYTHING, mark, _QUIET_S):
            yield sse.COMMENT
