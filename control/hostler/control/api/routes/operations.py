"""Operations of a project: submit, look, cancel, retry, logs, events, audit bundle (API-07..13)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.catalog.policy import PolicyOverlay
from hostler.control.api import pages, sse
from hostler.control.api.allocation_bodies import Action, Workload
from hostler.control.api.authz import INSIDE_TASKS, permit_own
from hostler.control.api.bodies import OperationRef, Submit, Submitted
from hostler.control.api.call import Call
from hostler.control.api.live import LiveSteps
from hostler.control.kernel.commands import (
    CancelOperation,
    OperationCreated,
    RetryOperation,
    SubmitOperation,
)
from hostler.control.kernel.workload_commands import ProbeWorkload, RecoverWorkload, WorkloadRecovered
from hostler.control.rpc.progress import Key
from hostler.control.store.records import EventView, OperationView
from hostler.control.store.task_logs import LogFilter
from hostler.pki import dsse
from hostler.wire.codec_node import decode_envelope
from hostler.wire.task import TaskMode

FINAL = frozenset({"succeeded", "failed", "canceled"})
STATUSES = ("", "queued", "running", *sorted(FINAL))
_ABOUT_INPUTS = ("input_schema", "secret_in_payload")
PLACED = "job.task_placed"
_QUIET_S = 15.0  # then a comment keeps the connection open
_BATCH = 500


async def submit(call: Call) -> tuple[int, Submitted]:
    """202 with `operation_id`; 200 when the idempotency key had been used with the same body."""
    project_id = await call.project()
    body = await call.body(Submit)
    if body.operation_type in INSIDE_TASKS:  # only by the routes of jobs: they look whose job it is
        hint = "ask for it by the job: POST …/jobs/{job_id}/exec or …/profile, or by an endpoint's proxy"
        raise error("invalid_request", f"{body.operation_type} is never asked for by itself", hint=hint)
    correlation_id = body.correlation_id or call.correlation_id
    org_id = call.principal.org_id or await call.parts.projects.org_of(project_id)
    command = SubmitOperation(
        actor=call.principal.actor(),
        org_id=org_id,
        project_id=project_id,
        operation_type=body.operation_type,
        version=body.version,
        inputs=body.inputs,
        target_selector=body.target_selector,
        idempotency_key=call.idempotency_key(body.idempotency_key),
        correlation_id=correlation_id,
        traceparent=call.traceparent,
        mode=TaskMode(body.mode),
        approved_plans=body.approved_plans,
        require_plan_approval=body.require_plan_approval,
        limits=PolicyOverlay(
            timeout_seconds=body.timeout_seconds or None, max_concurrency=body.max_concurrency or None
        ),
    )
    try:
        made: OperationCreated = await call.execute(command)
    except HostlerError as err:
        if err.code in _ABOUT_INPUTS:
            err.pointer = f"/inputs{err.pointer}"  # the caller sees a body, the engine its inputs alone
        raise
    answer = Submitted(
        operation_id=made.operation_id,
        created=made.created,
        deprecated=made.deprecated,
        deprecation_note=made.deprecation_note,
        correlation_id=correlation_id,
    )
    return (202 if made.created else 200), answer


async def listing(call: Call) -> Any:
    project_id = await call.project()
    status = call.query("status")
    if status not in STATUSES:
        raise error("invalid_request", f"status {status!r} does not exist")
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.operations(project_id, call.query("cursor"), size, status)


async def get(call: Call) -> Any:
    return await call.operation()


async def cancel(call: Call) -> tuple[int, OperationRef]:
    operation = await call.operation()
    permit_own(call.principal, operation.requested_by_user_id)
    command = CancelOperation(
        actor=call.principal.actor(), project_id=operation.project_id, operation_id=operation.operation_id
    )
    await call.execute(command)
    return 202, OperationRef(operation.operation_id)


async def retry(call: Call) -> tuple[int, OperationRef]:
    operation = await call.operation()
    command = RetryOperation(
        actor=call.principal.actor(), project_id=operation.project_id, operation_id=operation.operation_id
    )
    await call.execute(command)
    return 202, OperationRef(operation.operation_id)


async def probe(call: Call) -> Workload:
    """Its nodes are asked what became of the tasks that they took (LC-20)."""
    return await _workload(call, ProbeWorkload)


async def recover(call: Call) -> Workload:
    """What was done, and what is left for others to do (LC-20)."""
    return await _workload(call, RecoverWorkload)


async def _workload(call: Call, command: type[ProbeWorkload | RecoverWorkload]) -> Workload:
    operation = await call.operation()
    done: WorkloadRecovered = await call.execute(
        command(
            actor=call.principal.actor(),
            project_id=operation.project_id,
            operation_id=operation.operation_id,
            correlation_id=call.correlation_id,
        )
    )
    did = tuple(Action(**msgspec.structs.asdict(each)) for each in done.did)
    return Workload(operation_id=done.operation_id, did=did, remains=done.remains)


async def envelope(call: Call) -> bytes:
    """The signed envelope of a node's task, as DSSE JSON: what the node judges."""
    operation = await call.operation()
    node = call.query("node")
    if not node:
        raise error("invalid_request", "node is missing: name one of the operation's nodes")
    found = await call.engine.reader.envelope(operation.project_id, operation.operation_id, node)
    if not found:
        raise error("not_found", f"nothing is signed for node {node!r} in this operation")
    return dsse.to_json(decode_envelope(found))


async def logs(call: Call) -> Any:
    """Pages of log lines, or with `follow=true` all of them as they come until the operation ends."""
    operation = await call.operation()
    chosen = LogFilter(call.query("step_id"), pages.number(call, "task_index"), pages.number(call, "attempt"))
    follow = call.query("follow")
    if follow not in ("", "true", "false"):
        raise error("invalid_request", "follow is either true or false")
    if follow == "true":
        start = sse.last_event_id(call.request.headers.get("last-event-id", ""))
        return sse.respond(_follow_logs(call, operation, chosen, start))
    size = pages.size_of(call.query("page_size"))
    after = pages.log_position(call.query("cursor"))
    lines = await call.engine.reader.log_lines(operation.operation_id, after, size + 1, *chosen)
    return pages.log_page(lines, size)


async def _follow_logs(call: Call, operation: OperationView, chosen: LogFilter, after: int) -> AsyncIterator[bytes]:
    engine = call.engine
    while True:
        # mark and status first: what is stored after them is read in the next turn
        mark = engine.wakes.newest(operation.operation_id)
        status = await engine.reader.operation_status(operation.project_id, operation.operation_id)
        while lines := await engine.reader.log_lines(operation.operation_id, after, _BATCH, *chosen):
            for line in lines:
                yield sse.event("log", line, line.id)
            after = lines[-1].id
        if status in FINAL:
            yield sse.event("end", {"status": status})
            return
        if not await call.is_still_welcome():
            return
        if not await engine.wakes.changed(operation.operation_id, mark, _QUIET_S):
            yield sse.COMMENT


async def events(call: Call) -> Any:
    """The operation's events as they happen, with the progress of running steps; ends with it."""
    operation = await call.operation()
    start = sse.last_event_id(call.request.headers.get("last-event-id", ""))
    return sse.respond(_follow_events(call, operation, start))


async def _follow_events(call: Call, operation: OperationView | None, after: int) -> AsyncIterator[bytes]:
    """A job's tasks get their nodes one by one, and only a task's present node is heard about it."""
    place = _Place(after)
    while operation is not None and not place.over:
        async for part in _follow_tasks(call, operation, place):
            yield part
        if not place.over:
            operation = await call.engine.reader.operation(operation.project_id, operation.operation_id)


@dataclass
class _Place:
    """How far a follower of events is."""

    after: int
    over: bool = False


async def _stored(call: Call, operation_id: str, place: _Place) -> AsyncIterator[EventView]:
    while rows := await call.engine.reader.events(place.after, _BATCH, operation_id=operation_id):
        for row in rows:
            yield row
        place.after = rows[-1].id


async def _follow_tasks(call: Call, operation: OperationView, place: _Place) -> AsyncIterator[bytes]:
    """Until the operation has ended, or a task of it was placed."""
    engine, board = call.engine, call.parts.board
    operation_id = operation.operation_id
    tasks = [Key(task.node_id, task.task_id) for task in operation.tasks]
    live, read, shown, placed = LiveSteps(operation), -1, 0, False
    with board.following(tasks, partial(engine.wakes.touch, operation_id)):
        while True:
            # mark and status first: what is stored after them is read in the next turn
            mark, status = engine.wakes.newest(operation_id), ""
            if mark != read:
                read = mark
                status = await engine.reader.operation_status(operation.project_id, operation_id)
                async for row in _stored(call, operation_id, place):
                    live.note(row)
                    placed = placed or row.type == PLACED
                    yield sse.event(row.type, row, row.id)
            shown, steps = board.since(shown, tasks)
            for step in steps:
                if (progress := live.shown(step)) is not None:
                    yield sse.event("operation.progress", progress)
            if status in FINAL:
                place.over = True
                yield sse.event("end", {"status": status})
                return
            if placed:
                return
            if not await call.is_still_welcome():
                place.over = True
                return
            if not await engine.wakes.changed(operation_id, mark, _QUIET_S):
                read = -1  # nobody said that there is news: look once, rather than trust that for ever
                yield sse.COMMENT


async def audit_bundle(call: Call) -> Any:
    """The whole receipt chains of the operation's nodes, for `hostler audit verify`."""
    operation = await call.operation()
    return await call.parts.bundles.make(call.engine.reader, operation_id=operation.operation_id)
