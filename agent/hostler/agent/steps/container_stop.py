"""`container.stop`: what runs here for a job or an attempt, found by its labels, is stopped and removed (SK-24)."""

from hostler.agent.containers import spec
from hostler.agent.containers.find import labelled
from hostler.agent.containers.runtime import ContainerRuntime, Found
from hostler.agent.containers.workload import Workloads
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.container import ContainerStop

Running = list[tuple[ContainerRuntime, Found]]


class ContainerStopKind:
    name = "container.stop"

    async def plan(self, view: StepView) -> Plan:
        found = await _found(view)
        return Plan(tuple(Change(action="stop", target=one.name, detail=runtime.name) for runtime, one in found))

    async def apply(self, context: StepContext) -> Outcome:
        params: ContainerStop = context.params
        found = await _found(context)
        for runtime, one in found:
            await runtime.stop(one.id, params.grace_seconds)
            await runtime.remove(one.id)
            context.log("agent", f"container {one.name} is stopped and removed")
        return Outcome(outputs={"stopped": [one.name for _, one in found]}, changed=bool(found))

    async def probe(self, view: StepView) -> Probe:
        """Stopping again costs nothing, and tells which were left."""
        return Probe(truth=Truth.NOT_DONE, alive=True)


KIND = ContainerStopKind()


async def _found(view: StepView) -> Running:
    """Only of the task's own project, whatever job or attempt is named.

    Raises `binding_error` where neither is, `runtime_unavailable` where a runtime does not answer.
    """
    params: ContainerStop = view.params
    workloads: Workloads | None = view.workloads
    if workloads is None:
        raise error("runtime_unavailable", "nothing here runs containers")
    if not params.job and not params.attempt_uid:
        raise error("binding_error", "neither a job nor an attempt is named", hint="name one of them")
    wanted = {spec.NODE: workloads.node_id, spec.ORG: view.org_id, spec.PROJECT: view.project_id}
    wanted |= {spec.JOB: params.job} if params.job else {}
    wanted |= {spec.ATTEMPT: params.attempt_uid} if params.attempt_uid else {}
    found, away = await labelled(workloads, wanted)
    if away is not None:
        raise away  # what it has may run on, and nobody may be told that it was stopped
    return found
