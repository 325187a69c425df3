"""`task.exec`: a program inside a running task's container, its bytes over a relay (API-26, OD-08)."""

from hostler.agent.containers.find import running
from hostler.agent.containers.runtime import Size, Terminal
from hostler.agent.containers.session import Session
from hostler.agent.containers.transcript import Transcript
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.agent.steps.relay_limits import over
from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError
from hostler.catalog.params.task import TaskExec


class TaskExecKind:
    name = "task.exec"

    async def plan(self, view: StepView) -> Plan:
        params: TaskExec = view.params
        detail = " ".join(params.command)[:500]
        return Plan((Change(action="run", target=f"in task {params.task_id}", detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        params: TaskExec = context.params
        transcript = Transcript(lambda line: context.log("stdout", line))
        try:
            async with context.relay(params.relay_id) as relay:
                session = Session(relay, transcript.take, tty=params.tty)
                try:
                    facts = await session.run(lambda: self._start(context), lambda: over(context, "session"))
                except HostlerError as err:
                    await session.tell(err)
                    raise
        finally:
            transcript.close()
        outputs = {
            "exit_code": facts.exit_code,
            "bytes_in": facts.bytes_in,
            "bytes_out": facts.bytes_out,
            "output_sha256": facts.digest,
        }
        return Outcome(outputs=outputs, argv_digest=digest_of(list(params.command)), exit_status=facts.exit_code)

    async def probe(self, view: StepView) -> Probe:
        """A session does not outlive the agent that carried it."""
        return Probe(truth=Truth.DONE, error_code="relay_closed", note="the agent was restarted under the session")

    async def _start(self, context: StepContext) -> Terminal:
        params: TaskExec = context.params
        runtime, container = await running(
            context.workloads,
            task_id=params.task_id,
            attempt_uid=params.attempt_uid,
            org_id=context.org_id,
            project_id=context.project_id,
        )
        size = Size(params.rows, params.columns) if params.tty else None
        return await runtime.attach(container, params.command, tty=size)


KIND = TaskExecKind()
