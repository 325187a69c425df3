"""Programs inside running tasks: each is an operation of its own, and its bytes go over a relay (API-26)."""

import secrets
from typing import Annotated, Any, Literal

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.api.authz import EXEC, MEMBER, PROFILE
from hostler.control.api.call import Call
from hostler.control.kernel.commands import OperationCreated, SubmitOperation, TargetSelector
from hostler.control.store.records import OperationView, TaskView

VERSION = "v1"
Extent = Annotated[int, msgspec.Meta(ge=1, le=1000)]
TaskIndex = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class Exec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`command` runs inside the container of the task with that index."""

    command: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=8192)], ...], msgspec.Meta(min_length=1, max_length=256)
    ]
    task_index: TaskIndex = 0
    tty: bool = False
    rows: Extent = 24
    columns: Extent = 80


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_index: TaskIndex = 0
    kind: Literal["cpu", "threads", "memory"] = "cpu"
    seconds: Annotated[int, msgspec.Meta(ge=1, le=300)] = 10


class ExecMade(msgspec.Struct, frozen=True, kw_only=True):
    """Attach to `path` with a WebSocket within half a minute."""

    operation_id: str
    relay_id: str
    path: str


class ProfileMade(msgspec.Struct, frozen=True):
    operation_id: str


async def run(call: Call) -> tuple[int, ExecMade]:
    """202: the node has been told; the program starts when somebody attaches."""
    job, body = await _job(call), await call.body(Exec)
    task = _running(job, body.task_index)
    relay = call.parts.relays.make(task.node_id, job.project_id, call.principal.name)
    said = msgspec.to_builtins(body) | {"relay_id": relay.relay_id}
    del said["task_index"]
    try:
        operation_id = await submit(call, job, task, EXEC, said)
    except HostlerError:
        call.parts.relays.drop(relay, message="the operation was refused")
        raise
    path = f"/api/v1/projects/{job.project_id}/relays/{relay.relay_id}"
    return 202, ExecMade(operation_id=operation_id, relay_id=relay.relay_id, path=path)


async def profile(call: Call) -> tuple[int, ProfileMade]:
    """202: what the task's processes do is an output of the operation."""
    job, body = await _job(call), await call.body(Profile)
    task = _running(job, body.task_index)
    said = {"kind": body.kind, "seconds": body.seconds}
    return 202, ProfileMade(await submit(call, job, task, PROFILE, said))


async def _job(call: Call) -> OperationView:
    """A job is an operation. Raises `not_found`; `scope_denied` for a member and another's job."""
    project_id, job_id = await call.project(), call.path("job_id")
    found = await call.engine.reader.operation(project_id, job_id)
    if found is None:
        raise error("not_found", f"there is no job {job_id!r} in project {project_id!r}")
    if call.principal.role == MEMBER and call.principal.name != found.requested_by_user_id:
        raise error("scope_denied", "a project_member looks into tasks of its own jobs only")
    return found


def _running(job: OperationView, task_index: int) -> TaskView:
    """Raises `task_not_running`."""
    for task in job.tasks:
        if task.replica_index == task_index and task.status == "running" and task.node_id:
            return task
    raise error("task_not_running", f"task {task_index} of job {job.operation_id} does not run now")


async def submit(call: Call, job: OperationView, task: TaskView, type_: str, said: dict[str, Any]) -> str:
    command = SubmitOperation(
        actor=call.principal.actor(),
        org_id=job.org_id,
        project_id=job.project_id,
        operation_type=type_,
        version=VERSION,
        inputs={"task_id": task.task_id, "attempt_uid": task.attempt_uid} | said,
        target_selector=TargetSelector(nodes=(task.node_id,)),
        idempotency_key=secrets.token_hex(16),
        correlation_id=call.correlation_id,
        traceparent=call.traceparent,
    )
    made: OperationCreated = await call.execute(command)
    return made.operation_id
