"""The running container of an attempt, by its labels; of another tenant there is none."""

from hostler.agent.containers import spec
from hostler.agent.containers.runtime import ContainerRuntime, State
from hostler.agent.containers.workload import Workloads
from hostler.base.errors import HostlerError, error

RUNTIMES = ("containerd", "docker", "process")


async def running(
    workloads: Workloads | None, *, task_id: str, attempt_uid: str, org_id: str, project_id: str
) -> tuple[ContainerRuntime, str]:
    """→ runtime and id. Raises `task_not_running`."""
    labels = {spec.TASK: task_id, spec.ATTEMPT: attempt_uid, spec.ORG: org_id, spec.PROJECT: project_id}
    for name in RUNTIMES if workloads is not None else ():
        try:
            runtime = workloads.runtime(name)  # type: ignore[union-attr]  # there are names only where it is there
            found = await runtime.list(labels)
        except HostlerError as err:
            if err.code != "runtime_unavailable":
                raise
            continue
        for each in found:
            if each.state is State.RUNNING:
                return runtime, each.id
    raise error("task_not_running", f"attempt {attempt_uid} of task {task_id} does not run on this node")
