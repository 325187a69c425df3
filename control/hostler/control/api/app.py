"""The ASGI application: one edge around every route, for identity, permission, errors and ids."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from hostler.base.errors import HostlerError, error
from hostler.base.ids import new_id
from hostler.base.logs import get_logger
from hostler.control.api import openapi
from hostler.control.api.authz import permit
from hostler.control.api.call import Call, Parts
from hostler.control.api.problems import problem
from hostler.control.api.table import ROUTES, Route
from hostler.control.api.web import web_routes

_log = get_logger("hostler.control.api")
_CORRELATION = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(parts: Parts, version: str) -> Starlette:
    """Every route of the table, `/health`, `/openapi.json` and the page."""
    described = msgspec.json.encode(openapi.document(version))

    async def health(_: Request) -> Response:
        health = parts.engine.health
        return _json(200 if health == "ok" else 503, {"status": health})

    async def served(_: Request) -> Response:
        return Response(described, media_type="application/json")

    routes = [HttpRoute(route.path, _endpoint(route, parts), methods=[route.method]) for route in ROUTES]
    routes += [HttpRoute("/health", health), HttpRoute("/openapi.json", served), *web_routes()]
    return Starlette(routes=routes, exception_handlers={HTTPException: _http_problem})


def _endpoint(route: Route, parts: Parts) -> Endpoint:
    async def answer(request: Request) -> Response:
        correlation_id = _correlation(request, parts)
        try:
            principal = await parts.authenticator.of(request.headers.get("authorization", ""))
            permit(principal, route.permission)
            made = await route.handler(Call(request, parts, principal, correlation_id))
        except HostlerError as err:
            _log.info("request.refused", error_code=err.code, route=route.name, correlation_id=correlation_id)
            return problem(err, correlation_id)
        except Exception:  # noqa: BLE001 - the edge of a request: logged, answered, not spread
            _log.exception("request.failed", route=route.name, correlation_id=correlation_id)
            return problem(error("internal_error", "the request failed by a fault of ours"), correlation_id)
        return _response(made)

    return answer


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
    """The caller's own id where it is well-formed, else a new one."""
    given = request.headers.get("x-correlation-id", "")
    return given if _CORRELATION.fullmatch(given) else new_id("cor", parts.engine.clock.now_ms())


async def _http_problem(_: Request, err: Exception) -> Response:
    """What the router itself refuses."""
    status = err.status_code if isinstance(err, HTTPException) else 500
    if status == 405:
        return problem(error("invalid_request", "the method is not allowed on this path"), "")
    return problem(error("not_found", "there is no such path; see /openapi.json"), "")
