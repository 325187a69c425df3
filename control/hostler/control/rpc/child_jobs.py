"""The seam between a task and whatever places jobs: `submit_child` and `cancel_below` are called by `task_calls`.

A child that names no image runs in its parent's: with the same image, bundle and setup. It is asked for by whoever
asked for the parent, whose rights it has.
"""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.catalog.job import JobSpec, container_inputs, path_of, root_of
from hostler.control.engine import Engine
from hostler.control.kernel.commands import Actor, CancelOperation, SubmitOperation, TargetSelector
from hostler.control.store.endpoints import TaskCaller

MOST_PARTS = 16
_INHERITED = ("image", "bundle", "setup", "runtime")


def actor_of(caller: TaskCaller) -> Actor:
    """`task` says how, the name who."""
    name = caller.requested_by_user_id
    return Actor(kind="task", name=name, org_id=caller.org_id, project_id=caller.project_id)


def completed(spec: JobSpec, caller: TaskCaller) -> JobSpec:
    """The child with what it has from its parent."""
    if spec.image:
        return spec
    inherited: dict[str, Any] = {name: caller.inputs.get(name) for name in _INHERITED if not getattr(spec, name)}
    if caller.operation_type == "job.container.private":
        inherited["pull_credential"] = True
    changes = {name: tuple(v) if isinstance(v, list) else v for name, v in inherited.items() if v}
    return msgspec.structs.replace(spec, **changes)


async def submit_child(engine: Engine, caller: TaskCaller, spec: JobSpec, key: str) -> str:
    """→ the child's job id; the same one for the same key.

    It runs on its parent's node: an operation has its nodes when it is submitted, and nothing here places tasks yet.
    """
    path = path_of("", spec.name, caller.job)
    if path.count("/") > MOST_PARTS:
        raise error("invalid_request", f"jobs are nested {MOST_PARTS - 1} deep at most", pointer="/name")
    whole = completed(spec, caller)
    made = await engine.execute(
        SubmitOperation(
            actor=actor_of(caller),
            org_id=caller.org_id,
            project_id=caller.project_id,
            operation_type="job.container.private" if whole.pull_credential else "job.container.run",
            version="v1",
            inputs=container_inputs(whole, path, caller.job, root_of(path)),
            target_selector=TargetSelector(nodes=(caller.node_id,), replicas=whole.replicas),
            idempotency_key=f"{caller.operation_id}/{key}",
            correlation_id=caller.correlation_id,
        )
    )
    job_id: str = made.operation_id
    return job_id


async def cancel_below(engine: Engine, caller: TaskCaller, job_id: str) -> None:
    """Ends a job that was found to be the caller's own, or below it."""
    await engine.execute(CancelOperation(actor=actor_of(caller), project_id=caller.project_id, operation_id=job_id))
