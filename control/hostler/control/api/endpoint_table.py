"""The routes of endpoints; a part of the table."""

from hostler.control.api.route import Route
from hostler.control.api.routes import endpoints
from hostler.control.store import records

ENDPOINT_ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/v1/projects/{project_id}/endpoints",
        "endpoints.read",
        endpoints.listing,
        "List the names under which running tasks can be reached",
        query=("cursor", "page_size", "namespace", "endpoint_name"),
        answer=records.Page[records.EndpointView],
    ),
)
