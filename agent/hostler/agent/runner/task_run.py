"""The step loop of one task, in the order that was signed (OP-03)."""

import asyncio
import functools
import traceback

from hostler.agent.journal.rows import StepEnd, StoredTask
from hostler.agent.runner import recover, reuse
from hostler.agent.runner.faults import point
from hostler.agent.runner.limits import task_deadline
from hostler.agent.runner.patience import durably
from hostler.agent.runner.planning import PlannedStep, plan_task, task_plan_digest
from hostler.agent.runner.prepare import Outputs
from hostler.agent.runner.remint import Lost
from hostler.agent.runner.reports import plan_json, step_report, task_report
from hostler.agent.runner.step_run import Ended, StepRun
from hostler.agent.runner.work import Parts, Work, key_of, runs_containers
from hostler.agent.secrets.table import SecretTable
from hostler.base import fields
from hostler.base.envelope import TASK_TYPE
from hostler.base.errors import HostlerError, error
from hostler.pki.keyset import KeyRole
from hostler.wire.report import StepStatus, TaskReport, TaskStatus
from hostler.wire.task import TaskMode


class TaskRun:
    """One attempt of one task; lives as long as it runs.

    Attributes:
        ended: how it ended, once it has.
    """

    def __init__(self, parts: Parts, work: Work, cancelled: asyncio.Event) -> None:
        self._parts = parts
        self._work = work
        self._task = work.spec
        self._key = key_of(work.spec)
        self._cancelled = cancelled
        self._deadline = task_deadline(work.spec, work.definition.timeout_seconds, parts.clock)
        self._secrets = SecretTable(self._deadline, parts.clock)
        self._lost = Lost(parts, work)
        self._outputs: Outputs = {}
        self._reused: Outputs = {}
        self._planned: dict[int, PlannedStep] = {}
        self._step: tuple[int, StepRun] | None = None
        self.ended: TaskReport | None = None

    @property
    def ids(self) -> dict[str, str]:
        """For log records."""
        task = self._task
        return {
            fields.CORRELATION_ID: task.correlation_id,
            fields.OPERATION_ID: task.operation_id,
            fields.TASK_ID: task.task_id,
        }

    def close(self) -> None:
        """Wipes the task's secrets, whatever its end was."""
        self._secrets.close()

    def leave(self) -> None:
        """Its end is durable: what its containers left is cleared away (RN-11)."""
        if self._parts.workloads is not None and runs_containers(self._task):
            self._parts.workloads.ended(self._task.attempt_uid)

    async def run(self) -> None:
        """From the start."""
        try:
            self._check_still_wanted()
            if self._task.mode is TaskMode.PLAN:
                return await self._plan_only()
            self._reused = reuse.confirmed(self._parts, self._work, self._outputs)
            if self._task.approved_plan_digest:
                await self._check_approval()
        except HostlerError as err:
            return await self._end(err)
        return await self._steps_from(0)

    async def resume(self, stored: StoredTask) -> None:
        """From where a restart found it. Nothing that is done is run again."""
        if not stored.steps:
            return await self.run()
        self._outputs = recover.outputs_of(stored)
        self._lost = Lost(self._parts, self._work, self._outputs)
        self._reused = reuse.confirmed(self._parts, self._work, self._outputs)
        intent = recover.open_intent(stored)
        if intent is not None:
            step = self._take(intent.step_index)
            if not await self._settle(intent.step_index, step, await step.resume(intent, self._outputs)):
                return None
        return await self._steps_from(max(step.step_index for step in stored.steps) + 1)

    async def _steps_from(self, first: int) -> None:
        for index in range(first, len(self._task.steps)):
            if self._cancelled.is_set():
                return await self._end(error("canceled", "the task was cancelled between two steps"))
            step_id = self._task.steps[index].step_id
            if step_id in self._reused:
                await self._reuse(index, step_id)
                continue
            step = self._take(index)
            if not await self._settle(index, step, await step.run(self._outputs, self._planned.get(index))):
                return None
        return None

    def _take(self, index: int) -> StepRun:
        step = StepRun(self._parts, self._work, index, self._cancelled, self._deadline, self._secrets, self._lost)
        self._step = index, step
        return step

    # -- before the first step ----------------------------------------------------------------

    def _check_still_wanted(self) -> None:
        """It may have waited for a slot: for a cancel, its window, or a key no longer trusted (T11)."""
        if self._cancelled.is_set():
            raise error("canceled", "the task was cancelled before its first step")
        now = self._parts.clock.now_ms()
        if now >= self._task.expires_at_ms:
            raise error("expired", "the task's validity ended before its first step")
        trust = self._parts.trust()
        if trust.keyset.version != self._work.keyset_version:
            trust.verify(self._work.envelope, TASK_TYPE, KeyRole.DISPATCH, now)

    async def _plan_only(self) -> None:
        planned = await self._plan_all()
        now = self._parts.clock.now_ms()
        digest = task_plan_digest(self._work, planned)
        final = task_report(self._work, TaskStatus.PLANNED, now, plan_digest=digest)
        for index, one in enumerate(planned):
            plan = plan_json(one.plan)
            report = step_report(
                self._work, index, StepStatus.PLANNED, plan_json=plan, started_at_ms=now, finished_at_ms=now
            )
            last = final if index == len(planned) - 1 else None
            end = StepEnd(task=self._key, params_digest="", report=report, final=last)
            await durably(functools.partial(self._parts.journal.finish_step, end, None))
        self.ended = final

    async def _check_approval(self) -> None:
        """Before anything is applied, over the whole task."""
        planned = await self._plan_all()
        if task_plan_digest(self._work, planned) != self._task.approved_plan_digest:
            raise error("plan_drift", "a fresh plan of the task differs from the approved one")
        self._planned = dict(enumerate(planned))

    async def _plan_all(self) -> list[PlannedStep]:
        try:
            async with asyncio.timeout(self._deadline.remaining()):
                return await plan_task(self._parts, self._work, self._outputs | self._reused)
        except TimeoutError as err:
            raise error("timeout", "planning took longer than the task may") from err

    # -- how things end -----------------------------------------------------------------------

    async def _settle(self, index: int, step: StepRun, ended: Ended) -> bool:
        """Writes the step's end, and the task's with it where it ends; whether to go on."""
        step_id = self._task.steps[index].step_id
        status = self._status(ended.err)
        final = self._final(index)
        if ended.err is not None:
            now = self._parts.clock.now_ms()
            final = task_report(self._work, status, now, ended.err, failed_step_id=step_id)
        await step.end(ended, StepStatus(status.value), final)
        self._parts.host.forget_run(self._task.task_id, index)
        self.ended, self._step = final, None
        if ended.outcome is not None and ended.err is None:
            self._outputs[step_id] = ended.outcome.outputs
        point("after_report", self._task.steps[index].kind)
        return final is None

    async def _reuse(self, index: int, step_id: str) -> None:
        final = self._final(index)
        await reuse.report_reused(self._parts, self._work, index, final)
        self._outputs[step_id] = self._reused[step_id]
        self.ended = final

    def _final(self, index: int) -> TaskReport | None:
        """The task's success, if this is its last step."""
        if index < len(self._task.steps) - 1:
            return None
        return task_report(self._work, TaskStatus.SUCCEEDED, self._parts.clock.now_ms())

    def _status(self, err: HostlerError | None) -> TaskStatus:
        if err is None:
            return TaskStatus.SUCCEEDED
        wanted = err.code == "canceled" and self._cancelled.is_set()
        return TaskStatus.CANCELED if wanted else TaskStatus.FAILED

    async def _end(self, err: HostlerError, trace: str = "") -> None:
        """Ends the task outside any step."""
        report = task_report(self._work, self._status(err), self._parts.clock.now_ms(), err)
        await durably(lambda: self._parts.journal.finish_task(self._key, report, trace))
        self.ended = report

    async def broken(self, cause: Exception) -> None:
        """Our own bug: the task ends, the trace stays in the journal, the agent goes on."""
        trace = "".join(traceback.format_exception(cause))
        kind = type(cause).__name__
        if self._step is None:
            return await self._end(error("internal_error", f"the agent failed over the task ({kind})"), trace)
        (index, step), self._step = self._step, None
        step_id = self._task.steps[index].step_id
        err = error("internal_error", f"the agent failed in step {step_id} ({kind})")
        await self._settle(index, step, Ended(err=err, trace=trace))
        return None
