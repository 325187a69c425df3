"""The ASGI application: one edge around every route, for identity, permission, errors and ids."""

import ipaddress
import random
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute
from starlette.routing import WebSocketRoute

from hostler.base.errors import HostlerError, error
from hostler.base.ids import new_id
from hostler.base.logs import get_logger
from hostler.control.api import endpoint_table, openapi, relay
from hostler.control.api.authz import permit
from hostler.control.api.call import Call, Parts
from hostler.control.api.packages import package_routes
from hostler.control.api.principal import Caller
from hostler.control.api.problems import problem
from hostler.control.api.route import Route
from hostler.control.api.table import ROUTES
from hostler.control.api.web import web_routes
from hostler.control.kernel.commands import RecordRefusal
from hostler.control.metrics import CONTENT_TYPE

_log = get_logger("hostler.control.api")
_CORRELATION = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(parts: Parts, version: str) -> Starlette:
    """Every route of the table, and what needs no row there: health, metrics, the description, the page."""
    described = msgspec.json.encode(openapi.document(version))

    async def health(_: Request) -> Response:
        health = parts.engine.health
        return _json(200 if health == "ok" else 503, {"status": health})

    async def served(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def metrics(request: Request) -> Response:
        return await _metrics(request, parts)

    routes = [HttpRoute(route.served, _Edge(route, parts), methods=[route.method]) for route in ROUTES]
    routes += [HttpRoute("/health", health), HttpRoute("/metrics", metrics)]
    routes += [HttpRoute("/openapi.json", served), *web_routes(), *package_routes(parts)]
    sockets = [
        WebSocketRoute(relay.PATH, partial(relay.serve, parts=parts)),
        WebSocketRoute(endpoint_table.PROXY_SERVED, partial(relay.unsupported, parts=parts)),
    ]

    async def unrouted(request: Request, err: Exception) -> Response:
        return _http_problem(err, _correlation(request, parts), _methods_of(routes, request.url.path))

    app = Starlette(routes=[*routes, *sockets], exception_handlers={HTTPException: unrouted})
    app.router.redirect_slashes = False  # one path, one name
    return app


class _Edge:
    """Everything that is the same for every route: who, may they, what went wrong, and how long it took."""

    def __init__(self, route: Route, parts: Parts) -> None:
        self._route = route
        self._parts = parts
        self._seconds = parts.metrics.request_seconds.labels(route.name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started = time.perf_counter()
        response = await self._traced(Request(scope, receive, send))
        self._seconds.observe(time.perf_counter() - started)
        self._parts.metrics.requests.labels(self._route.name, str(response.status_code)).inc()
        await response(scope, receive, send)

    async def _traced(self, request: Request) -> Response:
        given = request.headers.get("traceparent", "")[:64]
        if self._parts.telemetry is None:
            return await self._answer(request, given)
        with self._parts.telemetry.span(f"api {self._route.name}", given) as traceparent:
            return await self._answer(request, traceparent)

    async def _answer(self, request: Request, traceparent: str) -> Response:
        correlation_id = _correlation(request, self._parts)
        call: Call | None = None
        try:
            try:
                principal = await self._parts.authenticator.of(request.headers.get("authorization", ""))
                call = Call(request, self._parts, principal, correlation_id, traceparent)
                return _response(await self._handle(call))
            except HostlerError as err:
                await self._refused(call, err, correlation_id)
                return problem(err, correlation_id)
        except HostlerError as err:  # the store could not write the refusal down
            return problem(err, correlation_id)
        except Exception:  # noqa: BLE001 - the edge of a request: logged, answered, not spread
            _log.exception("request.failed", route=self._route.name, correlation_id=correlation_id)
            return problem(error("internal_error", "the request failed by a fault of ours"), correlation_id)

    async def _handle(self, call: Call) -> Any:
        permit(call.principal, self._route.permission)
        for name in call.request.query_params:
            if name not in self._route.query and not self._route.any_query:
                raise error("unknown_field", f"there is no query parameter {name[:64]!r} here", pointer=f"/{name[:64]}")
        return await self._route.handler(call)

    async def _refused(self, call: Call | None, err: HostlerError, correlation_id: str) -> None:
        """A mutation leaves one line in the audit: the engine's, or this one where it never came so far (SE-02)."""
        _log.info("request.refused", error_code=err.code, route=self._route.name, correlation_id=correlation_id)
        if call is not None and self._route.action and not call.reached_engine:
            await call.execute(_refusal(self._route, call.principal, call.request, err, correlation_id))


def _refusal(
    route: Route, principal: Caller, request: Request, err: HostlerError, correlation_id: str
) -> RecordRefusal:
    return RecordRefusal(
        actor=principal.actor(),
        action=route.action,
        resource_name=request.url.path[:256],
        error_code=err.code,
        message=err.message[:500],
        correlation_id=correlation_id,
    )


async def _metrics(request: Request, parts: Parts) -> Response:
    """For anybody on this machine, and for whoever has a token."""
    if not _is_local(request):
        try:
            await parts.authenticator.of(request.headers.get("authorization", ""))
        except HostlerError as err:
            return problem(err, _correlation(request, parts))
    metrics, engine = parts.metrics, parts.engine
    metrics.sessions.set(len(parts.links))
    metrics.relays.set(len(parts.relays))
    metrics.store_healthy.set(engine.health == "ok")
    metrics.open_tasks.clear()
    for state, count in (await engine.reader.open_tasks()).items():
        metrics.open_tasks.labels(state).set(count)
    times, now_ms = await engine.reader.checkpoint_times(), engine.clock.now_ms()
    metrics.lifecycle.nodes(await engine.reader.lifecycle_counts(now_ms))
    metrics.checkpoint_age.set(_age_s(times.made_ms, now_ms))
    metrics.witnessed_age.set(_age_s(times.witnessed_ms, now_ms))
    metrics.unwitnessed.set(times.unwitnessed)
    return Response(metrics.text(), media_type=CONTENT_TYPE)


def _age_s(at_ms: int | None, now_ms: int) -> float:
    return float("nan") if at_ms is None else (now_ms - at_ms) / 1000


def _is_local(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _response(made: Any) -> Response:
    if isinstance(made, Response):
        return made
    if isinstance(made, bytes):
        return Response(made, media_type="application/json")
    status, content = made if isinstance(made, tuple) else (200, made)
    return _json(status, content)


def _json(status: int, content: Any) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _correlation(request: Request, parts: Parts) -> str:
    """The caller's own id where it is well-formed, else a new one; it is a name, so it need not be unguessable."""
    given = request.headers.get("x-correlation-id", "")
    if _CORRELATION.fullmatch(given):
        return given
    return new_id("cor", parts.engine.clock.now_ms(), random.getrandbits(80))


def _methods_of(routes: list[HttpRoute], path: str) -> str:
    """For `Allow`: what the path takes, over all routes that stand on it.

    Where a name may hold slashes, the longest template means the path: `…/cancel` is not a job of that name.
    """
    standing = [route for route in routes if route.path_regex.match(path)]
    template = max((route.path for route in standing), key=len, default="")
    return ", ".join(sorted(set().union(*(route.methods or () for route in standing if route.path == template))))


def _http_problem(err: Exception, correlation_id: str, allowed: str) -> Response:
    """What the router itself refuses."""
    if isinstance(err, HTTPException) and err.status_code == 405:
        refused = problem(error("method_not_allowed", "the path does not take this method"), correlation_id)
        refused.headers["allow"] = allowed
        return refused
    return problem(error("not_found", "there is no such path; see /openapi.json"), correlation_id)
