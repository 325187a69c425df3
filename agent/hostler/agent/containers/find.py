"""Containers by their labels, in whichever runtime of this node; of another tenant there is none."""

from collections.abc import Mapping

from hostler.agent.containers import spec
from hostler.agent.containers.runtime import ContainerRuntime, Found, State
from hostler.agent.containers.workload import Workloads
from hostler.base.errors import HostlerError, error


async def labelled(
    workloads: Workloads, labels: Mapping[str, str]
) -> tuple[list[tuple[ContainerRuntime, Found]], HostlerError | None]:
    """All that could be seen, and why that may not be all. Raises `runtime_unavailable` where no runtime is there."""
    workloads.runtime()
    seen: list[tuple[ContainerRuntime, Found]] = []
    away: HostlerError | None = None
    for runtime in workloads.runtimes():
        try:
            seen += [(runtime, one) for one in await runtime.list(labels)]
        except HostlerError as err:
            if err.code != "runtime_unavailable":
                raise
            away = err
    return seen, away


async def running(
    workloads: Workloads | None, *, task_id: str, attempt_uid: str, org_id: str, project_id: str
) -> tuple[ContainerRuntime, str]:
    """→ runtime and id. Raises `task_not_running`, `runtime_unavailable` where that cannot be told."""
    labels = {spec.TASK: task_id, spec.ATTEMPT: attempt_uid, spec.ORG: org_id, spec.PROJECT: project_id}
    seen, away = await labelled(workloads, labels) if workloads is not None else ([], None)
    for runtime, one in seen:
        if one.state is State.RUNNING:
            return runtime, one.id
    raise away or error("task_not_running", f"attempt {attempt_uid} of task {task_id} does not run on this node")
