"""One step: prepare → plan → intent → apply, or → probe after a restart; then its end, in one write."""

import asyncio
import functools
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from hostler.agent.journal.rows import ChainHead, StepEnd, StepStart, StoredStep
from hostler.agent.runner.faults import point
from hostler.agent.runner.limits import GRACE_SECONDS, step_deadline
from hostler.agent.runner.patience import durably
from hostler.agent.runner.planning import PlannedStep, plan_step
from hostler.agent.runner.prepare import Outputs, Prepared, prepare
from hostler.agent.runner.receipt import StepFacts
from hostler.agent.runner.reports import error_fields, step_report
from hostler.agent.runner.steplog import StepLog, StepMeter
from hostler.agent.runner.work import Parts, Work, allocation_of, key_of
from hostler.agent.secrets.table import Ending, SecretTable, StepSecrets
from hostler.agent.steps.contract import Outcome, StepContext, Truth
from hostler.base.clock import Deadline
from hostler.base.digest import canonical_json
from hostler.base.errors import HostlerError, error
from hostler.wire.report import StepReport, StepStatus, TaskReport

T = TypeVar("T")
NOT_OPEN = "operation_final"  # what the journal says of a task that is not open: leave it alone


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a step ended. No error: it succeeded."""

    outcome: Outcome | None = None
    err: HostlerError | None = None
    recovered: bool = False
    trace: str = ""


class StepRun:
    """One step of one attempt."""

    def __init__(
        self,
        parts: Parts,
        work: Work,
        index: int,
        cancelled: asyncio.Event,
        task_deadline: Deadline,
        secrets: SecretTable,
    ) -> None:
        self._parts = parts
        self._work = work
        self._index = index
        self._spec = work.spec.steps[index]
        self._key = key_of(work.spec)
        self._cancelled = cancelled
        self._deadline = step_deadline(self._spec, task_deadline, parts.clock)
        self._started_ms = parts.clock.now_ms()
        self._params_digest = ""
        self._plan_digest = ""
        self._secrets = secrets
        self._sandbox: dict[str, Any] = {}
        self._log = StepLog(parts.journal, parts.clock, self._redact, work.spec, index)

    async def run(self, outputs: Outputs, approved: PlannedStep | None) -> Ended:
        """Plans (unless it was just planned, for an approval), writes the intent, applies."""
        try:
            if approved is not None and approved.prepared is not None:
                prepared, plan = approved.prepared, approved.plan
            else:
                prepared = prepare(self._parts, self._work, self._index, outputs)
                plan = await _within(self._deadline, plan_step(prepared))
            self._params_digest, self._plan_digest = prepared.params_digest, plan.digest()
            point("before_intent", self._spec.kind)
            await self._write_intent()
            point("after_intent", self._spec.kind)
            outcome = await _within(self._deadline, prepared.kind.apply(self._context(prepared)))
            point("after_effect", self._spec.kind)
            return Ended(outcome=outcome)
        except HostlerError as err:
            if err.code == NOT_OPEN:
                raise
            return Ended(err=err)

    async def resume(self, intent: StoredStep, outputs: Outputs) -> Ended:
        """The truth first: done is finished without running it, not done is run, ambiguous is said (K2)."""
        self._started_ms = intent.started_ms
        try:
            prepared = prepare(self._parts, self._work, self._index, outputs)
            self._params_digest, self._plan_digest = prepared.params_digest, intent.plan_digest
            found = await _within(self._deadline, prepared.kind.probe(prepared.view))
            if found.truth is Truth.NOT_DONE:
                if self._cancelled.is_set():
                    raise error("canceled", "the task was cancelled while the agent was down")
                return await self.run(outputs, None)
            if found.truth is Truth.AMBIGUOUS:
                why = found.note or "the step kind cannot tell"
                raise error("interrupted_apply", f"step {intent.step_id} may or may not have happened: {why}")
            if found.error_code:
                why = found.note or "it had failed while the agent was down"
                raise error(found.error_code, f"step {intent.step_id}: {why}")
            return Ended(outcome=found.outcome or Outcome(), recovered=True)
        except HostlerError as err:
            if err.code == NOT_OPEN:
                raise
            return Ended(err=err, recovered=True)

    async def end(self, ended: Ended, status: StepStatus, final: TaskReport | None) -> None:
        """Outcome, receipt and report, and the task's end with them, in one transaction.

        Secrets that no later step may use are wiped before, so that the receipt can say so (CR-05, CR-06).
        """
        endings = self._secrets.step_ended(self._spec.step_id, succeeded=ended.err is None, last=final is not None)
        report = step_report(
            self._work,
            self._index,
            status,
            started_at_ms=self._started_ms,
            finished_at_ms=self._parts.clock.now_ms(),
            outputs_json=canonical_json(ended.outcome.outputs) if ended.outcome else b"",
            recovered=ended.recovered,
            **error_fields(ended.err),
        )
        stored = StepEnd(
            task=self._key,
            params_digest=self._params_digest,
            report=report,
            logs=self._log.rest(),
            final=final,
            trace=ended.trace,
            allocation=allocation_of(self._work),
        )
        sign = functools.partial(self._sign, report, ended.outcome, endings)
        await durably(lambda: self._parts.journal.finish_step(stored, sign))

    async def _write_intent(self) -> None:
        start = StepStart(
            task=self._key,
            envelope_digest=self._work.envelope_digest,
            kind=self._spec.kind,
            params_digest=self._params_digest,
            plan_digest=self._plan_digest,
            report=step_report(self._work, self._index, StepStatus.RUNNING, started_at_ms=self._started_ms),
        )
        await durably(lambda: self._parts.journal.begin_step(start))

    def _context(self, prepared: Prepared) -> StepContext:
        parts, task = self._parts, self._work.spec
        return StepContext(
            **vars(prepared.view),
            deadline=self._deadline,
            cancelled=self._cancelled,
            progress=StepMeter(parts.progress, parts.clock, task, self._index).progress,
            log=self._log.line,
            secrets=StepSecrets(self._secrets, self._spec.step_id),
            confined=self._sandbox.update,
            certify=parts.receipts.handover,
            save_checkpoint=functools.partial(parts.journal.save_checkpoint, self._key, self._spec.step_id),
        )

    def _redact(self, line: str) -> str:
        return self._secrets.scrub(self._parts.redact(line))

    def _sign(self, report: StepReport, outcome: Outcome | None, endings: tuple[Ending, ...], head: ChainHead) -> bytes:
        """Runs on the writer's thread, inside the transaction."""
        facts = StepFacts(
            envelope_digest=self._work.envelope_digest,
            params_digest=self._params_digest,
            plan_digest=self._plan_digest,
            outcome=outcome,
            secrets=endings,
            sandbox=self._sandbox,
        )
        receipt = self._parts.receipts.step(self._work.spec, self._spec, report, facts, head)
        point("after_receipt", self._spec.kind)
        return receipt


async def _within(deadline: Deadline, doing: Awaitable[T]) -> T:
    """A step kind keeps its deadline itself; this is for one that does not."""
    try:
        async with asyncio.timeout(deadline.remaining() + GRACE_SECONDS) as limit:
            return await doing
    except TimeoutError as err:
        if limit.expired():
            raise error("timeout", "the step did not end at its deadline and was given up") from err
        raise
