"""The routes of the task API; `proto/hostler/taskapi/v1/openapi.yaml` says the same to their callers."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple

import msgspec

from hostler.agent.taskapi.calls import Reply
from hostler.agent.taskapi.messages import Answer, Request
from hostler.agent.taskapi.session import Session
from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.wire import task_calls as wire
from hostler.wire.problem import MEDIA_TYPE, problem_document

_RETRY_S = {503: 5, 429: 1}


class EndpointBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`port` alone means: on this node's address."""

    name: wire.Text
    address: Annotated[str, msgspec.Meta(max_length=300)] = ""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    lease_ms: wire.Count = 0
    metadata: dict[wire.Text, Annotated[str, msgspec.Meta(max_length=4096)]] = {}


class Ask(NamedTuple):
    """`names` are those in the path."""

    session: Session
    request: Request
    names: dict[str, str]


Handler = Callable[[Ask], Awaitable[Answer]]


async def context(ask: Ask) -> Answer:
    return Answer(200, msgspec.json.encode(ask.session.context()))


async def keys(ask: Ask) -> Answer:
    return _passed_on(await ask.session.keys())


async def progress(ask: Ask) -> Answer:
    body = _body(ask.request, wire.Progress)
    shown = ask.session.may_report_progress(is_last=0 < body.total <= body.done)
    if shown:
        reply = await ask.session.call("progress", body)
        if reply.status >= 400:
            return _passed_on(reply)
    return Answer(202, msgspec.json.encode({"shown": shown}))


async def list_endpoints(ask: Ask) -> Answer:
    asked = {name: ask.request.query[name] for name in ("namespace", "job", "name") if ask.request.query.get(name)}
    reply, age_s = await ask.session.endpoints(asked)
    stale = (("age", str(max(1, int(age_s)))),) if age_s else ()
    return _passed_on(reply, stale)


async def put_endpoint(ask: Ask) -> Answer:
    """Registers, or renews. What the node is and which ports the task holds is ours to say."""
    body, facts = _body(ask.request, EndpointBody), ask.session.facts
    if bool(body.address) == bool(body.port):
        raise error("invalid_request", "an endpoint has an address or a port", pointer="/address")
    host = f"[{facts.node_address}]" if ":" in facts.node_address else facts.node_address
    said = wire.Register(
        endpoint_id=ask.names["endpoint_id"],
        name=body.name,
        address=body.address or f"{host}:{body.port}",
        metadata=body.metadata,
        lease_ms=body.lease_ms,
        node_address=facts.node_address,
        ports=tuple(facts.ports.values()),
    )
    return _passed_on(await ask.session.call("endpoints.register", said))


async def delete_endpoint(ask: Ask) -> Answer:
    return _passed_on(await ask.session.call("endpoints.unregister", {"endpoint_id": ask.names["endpoint_id"]}))


async def submit_job(ask: Ask) -> Answer:
    """A child of the task's job. The same `Idempotency-Key` gives the same child."""
    spec: dict[str, Any] = decode_json(ask.request.body, dict[str, Any])
    key = ask.request.headers.get("idempotency-key") or secrets.token_hex(16)
    reply = await ask.session.call("jobs.submit", {"spec": spec, "key": key})
    return _passed_on(reply._replace(status=202) if reply.status == 200 else reply)


async def show_job(ask: Ask) -> Answer:
    """With `wait_s` once the job has ended, or as it is when that time is over."""
    job, text = {"job_id": ask.names["job_id"]}, ask.request.query.get("wait_s", "")
    if not text:
        return _passed_on(await ask.session.call("jobs.show", job))
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= wire.MAX_WAIT_S):
        raise error("invalid_request", f"wait_s is a number up to {wire.MAX_WAIT_S}")
    return _passed_on(await ask.session.call("jobs.wait", job | {"wait_s": int(text)}, float(text)))


async def cancel_job(ask: Ask) -> Answer:
    return _passed_on(await ask.session.call("jobs.cancel", {"job_id": ask.names["job_id"]}))


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler
    query: tuple[str, ...] = ()


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/context", context),
    Route("GET", "/v1/keys", keys),
    Route("POST", "/v1/progress", progress),
    Route("GET", "/v1/endpoints", list_endpoints, ("namespace", "job", "name")),
    Route("PUT", "/v1/endpoints/{endpoint_id}", put_endpoint),
    Route("DELETE", "/v1/endpoints/{endpoint_id}", delete_endpoint),
    Route("POST", "/v1/jobs", submit_job),
    Route("GET", "/v1/jobs/{job_id}", show_job, ("wait_s",)),
    Route("POST", "/v1/jobs/{job_id}/cancel", cancel_job),
)


async def answer(session: Session, request: Request) -> Answer:
    """What the route says, or why not."""
    try:
        route, names = _found(request)
        unknown = set(request.query) - set(route.query)
        if unknown:
            raise error("invalid_request", f"{route.path} takes no {min(unknown)[:64]!r}")
        return await route.handler(Ask(session, request, names))
    except HostlerError as err:
        return refused(err)


def refused(err: HostlerError) -> Answer:
    status = err.http_status
    return Answer(status, msgspec.json.encode(problem_document(err)), MEDIA_TYPE, _headers_of(status))


def _found(request: Request) -> tuple[Route, dict[str, str]]:
    """Raises `not_found`, `method_not_allowed`."""
    there = False
    for route in ROUTES:
        names = _matched(route.path.split("/")[1:], request.path)
        if names is not None and route.method == request.method:
            return route, names
        there = there or names is not None
    if there:
        raise error("method_not_allowed", f"that path does not take {request.method}", hint="see docs/tasks.md")
    raise error("not_found", "the task API has no such path", hint="see docs/tasks.md")


def _matched(pattern: list[str], path: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(path):
        return None
    names: dict[str, str] = {}
    for wanted, part in zip(pattern, path, strict=True):
        if wanted.startswith("{") and part:
            names[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return names


def _body(request: Request, type_: Any) -> Any:
    return decode_json(request.body, type_)


def _passed_on(reply: Reply, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    if reply.status >= 400:
        return Answer(reply.status, reply.body, MEDIA_TYPE, _headers_of(reply.status))
    return Answer(reply.status, reply.body, headers=headers)


def _headers_of(status: int) -> tuple[tuple[str, str], ...]:
    return (("retry-after", str(_RETRY_S[status])),) if status in _RETRY_S else ()
