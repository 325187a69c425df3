"""`task.forward`: one connection to a port of a running task, its bytes over a relay (TE-22)."""

from hostler.agent.containers.forward import connected
from hostler.agent.containers.runtime import Terminal
from hostler.agent.containers.session import Session
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.agent.steps.relay_limits import over
from hostler.base.errors import HostlerError
from hostler.catalog.params.task import TaskForward


class TaskForwardKind:
    name = "task.forward"

    async def plan(self, view: StepView) -> Plan:
        params: TaskForward = view.params
        return Plan((Change(action="connect", target=f"port {params.port} of task {params.task_id}"),))

    async def apply(self, context: StepContext) -> Outcome:
        """What goes through is the tenant's own: counted and digested, and not logged."""
        params: TaskForward = context.params
        async with context.relay(params.relay_id) as relay:
            session = Session(relay, _nothing, tty=False)
            try:
                facts = await session.run(lambda: _start(context), lambda: over(context, "connection"))
            except HostlerError as err:
                await session.tell(err)
                raise
        outputs = {"bytes_in": facts.bytes_in, "bytes_out": facts.bytes_out, "output_sha256": facts.digest}
        return Outcome(outputs=outputs)

    async def probe(self, view: StepView) -> Probe:
        """A connection does not outlive the agent that carried it."""
        return Probe(truth=Truth.DONE, error_code="relay_closed", note="the agent was restarted under the connection")


async def _start(context: StepContext) -> Terminal:
    params: TaskForward = context.params
    return await connected(
        context.workloads,
        task_id=params.task_id,
        attempt_uid=params.attempt_uid,
        org_id=context.org_id,
        project_id=context.project_id,
        port=params.port,
    )


def _nothing(_: bytes) -> None:
    """What goes through is in nobody's log."""


KIND = TaskForwardKind()
