"""Jobs of a project: submit, list, look, ask why, wait, cancel (API-26). A job's log is that of its operation."""

from typing import Any

from hostler.base.errors import error
from hostler.catalog.job import JobSpec
from hostler.control.api import pages
from hostler.control.api.authz import permit_own
from hostler.control.api.call import Call
from hostler.control.api.job_bodies import CancelOfJob, Explained, JobMade, NewJob, NodeFit, TaskReason
from hostler.control.kernel.job_commands import CancelJob, JobSubmitted, SubmitJob
from hostler.control.store.job_queries import STATES, JobView

FINAL = frozenset({"succeeded", "failed", "canceled"})
_LONGEST_WAIT_S = 60.0


async def submit(call: Call) -> tuple[int, JobMade]:
    """202 with `job_id`; 200 for a job that was there already."""
    project_id = await call.project()
    body = await call.body(NewJob)
    made: JobSubmitted = await call.execute(
        SubmitJob(
            actor=call.principal.actor(),
            org_id=call.principal.org_id or await call.parts.projects.org_of(project_id),
            project_id=project_id,
            spec=JobSpec(**{name: getattr(body, name) for name in JobSpec.__struct_fields__}),
            idempotency_key=call.idempotency_key(body.idempotency_key),
            correlation_id=call.correlation_id,
            parent=body.parent,
            traceparent=call.traceparent,
        )
    )
    answer = JobMade(job_id=made.job_id, name=made.name, created=made.created, correlation_id=call.correlation_id)
    return (202 if made.created else 200), answer


async def listing(call: Call) -> Any:
    project_id, state = await call.project(), call.query("state")
    if state and state not in STATES:
        raise error("invalid_request", f"a job is never {state[:64]!r}", pointer="/state")
    size, prefix = pages.size_of(call.query("page_size")), call.query("prefix").rstrip("/")
    return await call.engine.reader.jobs(project_id, call.query("cursor"), size, prefix, state)


async def get(call: Call) -> JobView:
    return await _own(call)


async def tasks(call: Call) -> Any:
    job, size = await _own(call), pages.size_of(call.query("page_size"))
    return await call.engine.reader.job_tasks(job.job_id, call.query("cursor"), size)


async def explain(call: Call) -> Explained:
    """What each waiting task waits for, and whether one of them would fit on each node now."""
    job, reader = await _own(call), call.engine.reader
    page = await reader.job_tasks(job.job_id, page_size=pages.MAX_SIZE)
    waiting = [task for task in page.items if task.reason]
    said = [(task.task_index, *task.reason.partition(": ")[::2]) for task in waiting]
    nodes = await reader.job_nodes(job.job_id) if job.state not in FINAL else []
    return Explained(
        job_id=job.job_id,
        state=job.state,
        reason=job.reason,
        tasks=tuple(TaskReason(*each) for each in said),
        nodes=tuple(NodeFit(node.node_id, node.name, not why, why) for node, why in nodes),
    )


async def wait(call: Call) -> JobView:
    """The job as soon as it has ended, or as it is when the time is over."""
    loop_s, wakes = _seconds(call.query("timeout_seconds")), call.engine.wakes
    job = await _own(call)
    end = call.engine.clock.monotonic() + loop_s
    while True:
        mark = wakes.newest(job.job_id)  # first: what is stored after it is read in the next turn
        job = await _own(call)
        left = end - call.engine.clock.monotonic()
        if job.state in FINAL or left <= 0 or not await wakes.changed(job.job_id, mark, left):
            return await _own(call) if job.state not in FINAL else job


def _seconds(text: str) -> float:
    if not text:
        return 30.0
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise error("invalid_request", "timeout_seconds is a whole number", pointer="/timeout_seconds")
    return min(float(text), _LONGEST_WAIT_S)


async def cancel(call: Call) -> tuple[int, CancelOfJob]:
    """202: it and every job below it end; 200 where there was nothing to end (JB-04)."""
    job = await _own(call)
    permit_own(call.principal, job.user)
    told = await call.execute(
        CancelJob(actor=call.principal.actor(), project_id=call.path("project_id"), job_id=job.job_id)
    )
    return (202 if told else 200), CancelOfJob(job_id=job.job_id, canceled=tuple(told))


async def capacity(call: Call) -> Any:
    """Every node with what it has, what jobs hold of it, and what is free."""
    return await call.engine.reader.capacity(call.query("cursor"), pages.size_of(call.query("page_size")))


async def _own(call: Call) -> JobView:
    """The job in the path, by its id or its own path, of the project in the path. Raises `not_found`."""
    project_id, named = await call.project(), call.path("job_id")
    if "/" in named and not named.startswith("/"):
        named = f"/{named}"
    found = await call.engine.reader.job(project_id, named)
    if found is None:
        raise error("not_found", f"there is no job {named!r} in project {project_id!r}")
    return found
