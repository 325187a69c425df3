"""One step: prepare → plan → intent → apply, or → probe after a restart; then its end, in one write."""

import asyncio
import functools
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from hostler.agent.journal.rows import ChainHead, StepEnd, StepStart, StoredStep
from hostler.agent.resolver.resolver import Resolved
from hostler.agent.runner.artifacts import told
from hostler.agent.runner.faults import point
from hostler.agent.runner.limits import GRACE_SECONDS, step_deadline
from hostler.agent.runner.patience import durably
from hostler.agent.runner.planning import PlannedStep, plan_step
from hostler.agent.runner.prepare import Outputs, Prepared, prepare
from hostler.agent.runner.receipt import StepFacts
from hostler.agent.runner.remint import Lost
from hostler.agent.runner.reports import error_fields, step_report
from hostler.agent.runner.steplog import StepLog, StepMeter
from hostler.agent.runner.work import Parts, Work, allocation_of, key_of
from hostler.agent.runner.worklog import WorkLog
from hostler.agent.secrets.table import Ending, SecretTable, StepSecrets
from hostler.agent.steps.contract import FailedWith, MintedSecret, MintOrder, Outcome, StepContext, Truth
from hostler.base.clock import Deadline
from hostler.base.digest import canonical_json
from hostler.base.errors import HostlerError, error
from hostler.wire.report import StepReport, StepStatus, TaskReport

T = TypeVar("T")
NOT_OPEN = "operation_final"  # what the journal says of a task that is not open: leave it alone


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a step ended. No error: it succeeded; with one, the outcome is what it can tell all the same."""

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
        lost: Lost,
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
        self._resolved: Resolved | None = None
        self._secrets = secrets
        self._lost = lost
        self._sandbox: dict[str, Any] = {}
        self._log = StepLog(parts.journal, parts.clock, self._redact, work.spec, index)
        self._worklog = WorkLog(parts.journal, parts.spool, parts.clock, self._redact, work.spec, index)

    async def run(self, outputs: Outputs, approved: PlannedStep | None, *, alive: bool = False) -> Ended:
        """Plans (unless it was just planned, for an approval), writes the intent, applies.

        Args:
            alive: what an earlier process began runs on; taking it up waits for no credential.
        """
        try:
            if approved is not None and approved.prepared is not None:
                prepared, plan = approved.prepared, approved.plan
            else:
                prepared = prepare(self._parts, self._work, self._index, outputs)
                plan = await _within(self._deadline, plan_step(prepared))
            self._know(prepared, plan.digest())
            if not alive:
                await self._restore()
            point("before_intent", self._spec.kind)
            await self._write_intent()
            point("after_intent", self._spec.kind)
            outcome = await _within(self._deadline, prepared.kind.apply(self._context(prepared)))
            point("after_effect", self._spec.kind)
            return Ended(outcome=outcome)
        except HostlerError as err:
            if err.code == NOT_OPEN:
                raise
            return Ended(err=err, outcome=err.outcome if isinstance(err, FailedWith) else None)

    async def resume(self, intent: StoredStep, outputs: Outputs) -> Ended:
        """The truth first: done is finished without running it, not done is run, ambiguous is said (K2)."""
        self._started_ms = intent.started_ms
        try:
            prepared = prepare(self._parts, self._work, self._index, outputs)
            self._know(prepared, intent.plan_digest)
            if prepared.resolved and prepared.params_digest != intent.params_digest:
                raise error("interrupted_apply", f"{intent.kind} resolves to another command since it was started")
            found = await _within(self._deadline, prepared.kind.probe(prepared.view))
            if found.truth is Truth.NOT_DONE:
                if self._cancelled.is_set() and not found.alive:
                    raise error("canceled", "the task was cancelled while the agent was down")
                return await self.run(outputs, None, alive=found.alive)
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
            **self._resolution(),
            artifacts=told(self._work.definition, self._index, ended.outcome, self._redact),
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

    def _know(self, prepared: Prepared, plan_digest: str) -> None:
        """What every report, log and receipt of the step says from here on (RS-07)."""
        self._params_digest, self._plan_digest = prepared.params_digest, plan_digest
        self._resolved = prepared.resolved
        if prepared.resolved:
            name, rule = prepared.resolved.command.id, prepared.resolved.rule_id
            self._log.line("agent", f"{self._spec.kind} is {name} here, by rule {rule}")

    def _resolution(self) -> dict[str, str]:
        if self._resolved is None:
            return {}
        return {"resolved_profile": self._resolved.command.id, "hardware_match": self._resolved.rule_id}

    async def _restore(self) -> None:
        """Credentials that a restart has lost, made again for this step."""
        own = StepSecrets(self._secrets, self._spec.step_id)

        async def apply(mint: Prepared, secrets: StepSecrets) -> Outcome:
            return await _within(self._deadline, mint.kind.apply(self._context(mint, secrets)))

        if made := await self._lost.restore(self._spec.step_id, own, apply):
            self._log.line("agent", f"{made} credentials were lost in a restart and made again")

    async def _write_intent(self) -> None:
        start = StepStart(
            task=self._key,
            envelope_digest=self._work.envelope_digest,
            kind=self._spec.kind,
            params_digest=self._params_digest,
            plan_digest=self._plan_digest,
            report=step_report(
                self._work, self._index, StepStatus.RUNNING, started_at_ms=self._started_ms, **self._resolution()
            ),
        )
        await durably(lambda: self._parts.journal.begin_step(start))

    def _context(self, prepared: Prepared, secrets: StepSecrets | None = None) -> StepContext:
        parts, task, step_id = self._parts, self._work.spec, prepared.spec.step_id
        return StepContext(
            **vars(prepared.view),
            deadline=self._deadline,
            cancelled=self._cancelled,
            progress=StepMeter(parts.progress, parts.clock, task, self._index).progress,
            log=self._log.line,
            log_batch=self._worklog.batch,
            log_cursor=self._worklog.cursor,
            secrets=secrets or StepSecrets(self._secrets, step_id),
            confined=self._sandbox.update,
            relay=parts.relay,
            certify=parts.receipts.handover,
            save_checkpoint=functools.partial(parts.journal.save_checkpoint, self._key, step_id),
            mint=functools.partial(self._mint, step_id),
            report_again=parts.journal.replayed,
        )

    async def _mint(self, step_id: str, credential_type: str, intent: dict[str, Any], part: str) -> MintedSecret:
        task = self._work.spec
        order = MintOrder(
            task_id=task.task_id,
            operation_id=task.operation_id,
            attempt_uid=task.attempt_uid,
            step_id=step_id,
            credential_type=credential_type,
            intent=intent,
            part=part,
        )
        return await self._parts.mint(order)

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
            command_digest=self._resolved.digest if self._resolved else self._spec.command_digest,
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
