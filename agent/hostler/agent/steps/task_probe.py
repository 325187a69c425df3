"""`task.probe`: what is true of one attempt on this node, from the journal and the container runtime (SK-23, LC-17).

A tenant learns of its own tasks alone. It changes nothing but this: the result of a task that has ended is told once
more, so that a control plane that has forgotten it, or never heard of it, comes to know by the ordinary way.
"""

import asyncio

import msgspec

from hostler.agent.containers.find import labelled
from hostler.agent.containers.runtime import ContainerRuntime, Found, State
from hostler.agent.containers.spec import ATTEMPT, TASK
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import HostlerError
from hostler.catalog.params.task import TaskProbe

NONE, UNKNOWN = "none", "unknown"


class TaskProbeKind:
    name = "task.probe"

    async def plan(self, view: StepView) -> Plan:
        params: TaskProbe = view.params
        return Plan((Change(action="check", target=f"task {params.task_id}", detail=f"attempt {params.attempt_uid}"),))

    async def apply(self, context: StepContext) -> Outcome:
        params: TaskProbe = context.params
        found = context.truth(params.task_id, params.attempt_uid)
        within = min(params.within_seconds, context.deadline.remaining())
        may_know = context.sees_all_tasks or found.state != UNKNOWN
        container, exit_code = await _container(context, params, within, may_know=may_know)
        if found.ended:
            await context.report_again(params.task_id)
        context.log("agent", f"task {params.task_id}: {found.state} by the journal, container {container}")
        said = msgspec.to_builtins(found) | {"container": container, "container_exit": exit_code}
        return Outcome(outputs=said, changed=False)

    async def probe(self, view: StepView) -> Probe:
        return Probe(truth=Truth.NOT_DONE, note="the node is asked anew")


KIND = TaskProbeKind()


async def _container(context: StepContext, params: TaskProbe, within: float, *, may_know: bool) -> tuple[str, int]:
    """What the runtime says of the attempt's container, and its exit code; `unknown` when it does not answer."""
    if context.workloads is None or not may_know:
        return NONE, -1
    try:
        async with asyncio.timeout(within):
            seen, away = await labelled(context.workloads, {TASK: params.task_id, ATTEMPT: params.attempt_uid})
            if away is not None and not seen:
                raise away
            return await _newest(seen)
    except TimeoutError:
        context.log("agent", f"the container runtime did not answer within {within:g} s")
    except HostlerError as err:
        context.log("agent", f"the container runtime was not asked: {err.message}")
    return UNKNOWN, -1


async def _newest(seen: list[tuple[ContainerRuntime, Found]]) -> tuple[str, int]:
    """One that runs before one that has ended: setup and main are two containers of one attempt."""
    if not seen:
        return NONE, -1
    runtime, one = next((each for each in seen if each[1].state is State.RUNNING), seen[-1])
    status = await runtime.status(one.id)
    return str(status.state), status.exit_code if status.ended else -1
