"""A task's HTTP endpoint through the control plane, which never dials it (TE-22).

Who may run programs in a task may talk to it: every connection is an operation that the caller has submitted, with its
line in the audit and its receipt. Many requests share one.
"""

from starlette.requests import ClientDisconnect

from hostler.base.errors import HostlerError, error
from hostler.control.api.authz import FORWARD, MEMBER
from hostler.control.api.call import Call
from hostler.control.api.exchange import Exchange, Proxied
from hostler.control.api.lines import Line, Wanted
from hostler.control.api.routes.exec import submit
from hostler.control.kernel.endpoints import host_and_port
from hostler.control.store.records import EndpointView, OperationView, TaskView

_SEGMENTS = 9  # of the path in front of the task's own: /api/v1/projects/{}/endpoints/{}/{}/proxy/
_REPEATABLE = ("GET", "HEAD")


async def get(call: Call) -> Proxied:
    return await _proxied(call)


async def post(call: Call) -> Proxied:
    return await _proxied(call)


async def put(call: Call) -> Proxied:
    return await _proxied(call)


async def patch(call: Call) -> Proxied:
    return await _proxied(call)


async def delete(call: Call) -> Proxied:
    return await _proxied(call)


async def _proxied(call: Call) -> Proxied:
    endpoint, job, task = await _found(call)
    if "upgrade" in call.request.headers:
        raise error("upgrade_unsupported", "a request through the proxy stays HTTP/1.1")
    prefix, target = _split(call)
    _, port = host_and_port(endpoint.address)
    wanted = Wanted(call.principal.name, job.project_id, task.task_id, task.attempt_uid, port)
    line = call.parts.lines.idle(wanted)
    if line is not None:
        try:
            return await _answered(call, line, endpoint.address, prefix, target)
        except HostlerError as err:
            # the task may have closed it in the very moment; what was perhaps done already is not asked for again
            if err.code != "endpoint_unreachable" or not _is_repeatable(call):
                raise
    line = await _opened(call, wanted, job, task)
    return await _answered(call, line, endpoint.address, prefix, target)


async def _found(call: Call) -> tuple[EndpointView, OperationView, TaskView]:
    """A live endpoint and the attempt behind it. Raises `not_found`; `scope_denied` for a member and another's job."""
    project_id, task_id, endpoint_id = await call.project(), call.path("task_id"), call.path("endpoint_id")
    endpoint = await call.engine.reader.endpoint(project_id, task_id, endpoint_id)
    job = await call.engine.reader.operation(project_id, endpoint.operation_id) if endpoint else None
    if endpoint is None or job is None:
        raise error("not_found", f"task {task_id!r} of project {project_id!r} has no endpoint {endpoint_id!r} now")
    if call.principal.role == MEMBER and call.principal.name != job.requested_by_user_id:
        raise error("scope_denied", "a project_member reaches endpoints of its own jobs only")
    for task in job.tasks:
        if task.task_id == task_id and task.status == "running" and task.node_id:
            return endpoint, job, task
    raise error("endpoint_unreachable", f"task {task_id} does not run now")


def _split(call: Call) -> tuple[str, bytes]:
    """The proxy's own path, and the task's with its query, byte for byte as the client wrote it."""
    raw: bytes = call.request.scope["raw_path"].partition(b"?")[0]
    parts = raw.split(b"/", _SEGMENTS)
    if len(parts) <= _SEGMENTS or parts[_SEGMENTS - 1] != b"proxy":
        raise error("invalid_request", "the names in front of /proxy/ must not be written with escapes")
    query = call.request.scope["query_string"]
    target = b"/" + parts[_SEGMENTS] + (b"?" + query if query else b"")
    return b"/".join(parts[:_SEGMENTS]).decode("ascii"), target


def _is_repeatable(call: Call) -> bool:
    headers = call.request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return call.request.method in _REPEATABLE and not has_body


async def _opened(call: Call, wanted: Wanted, job: OperationView, task: TaskView) -> Line:
    line = call.parts.lines.begin(wanted, task.node_id)
    try:
        await submit(call, job, task, FORWARD, {"relay_id": line.relay.relay_id, "port": wanted.port})
        await line.opened()
    except BaseException:
        call.parts.lines.close(line)
        raise
    return line


async def _answered(call: Call, line: Line, address: str, prefix: str, target: bytes) -> Proxied:
    exchange = Exchange(call, line, address, prefix, target)
    try:
        await exchange.begin()
        return Proxied(exchange, line, call.parts.lines)
    except ClientDisconnect as err:
        call.parts.lines.close(line)
        raise error("relay_closed", "the client has gone") from err
    except BaseException:
        call.parts.lines.close(line)
        raise
