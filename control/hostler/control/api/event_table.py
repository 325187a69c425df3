"""The routes of the event log; a part of the table."""

from hostler.control.api.route import Route
from hostler.control.api.routes import events
from hostler.control.store import records

EVENT_ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/v1/events",
        "events.read",
        events.listing,
        "Events of the caller's scope, in pages or with follow=true as server-sent events",
        query=("cursor", "page_size", "follow", "type", "project_id"),
        events=True,
        answer=records.Page[records.EventView],
    ),
)
