"""The routes of endpoints, and through the proxy to what stands behind them; a part of the table."""

from hostler.control.api.route import Route
from hostler.control.api.routes import endpoint_proxy, endpoints
from hostler.control.store import records

PROXY = "/api/v1/projects/{project_id}/endpoints/{task_id}/{endpoint_id}/proxy/{rest}"
PROXY_SERVED = PROXY.replace("{rest}", "{rest:path}")

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
    *(
        Route(
            handler.__name__.upper(),
            PROXY,
            "jobs.exec",
            handler,
            "Ask a task's HTTP endpoint; the answer is the task's own",
            action="" if handler is endpoint_proxy.get else "endpoint.proxy",
            binary=True,
            upload=handler in (endpoint_proxy.post, endpoint_proxy.put, endpoint_proxy.patch),
            any_query=True,
        )
        for handler in (
            endpoint_proxy.get,
            endpoint_proxy.post,
            endpoint_proxy.put,
            endpoint_proxy.patch,
            endpoint_proxy.delete,
        )
    ),
)
