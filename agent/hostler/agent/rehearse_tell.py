"""What a rehearsal says while it runs: the outbox of the journal, as a control plane would get it, in plain lines."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from hostler.agent.journal.journal import Journal
from hostler.base.errors import HostlerError, error
from hostler.pki.chain import ChainReport, verify_chain
from hostler.pki.keys import PublicKey
from hostler.wire.codec_report import decode_body
from hostler.wire.report import Body, LogLine, StepProgress, StepReport, StepStatus, TaskReport, TaskStatus
from hostler.wire.task import TaskMode

_ROWS = 1000
_DETAIL_LINES = 20  # of one change, such as a diff


class Told(msgspec.Struct, kw_only=True):
    """The whole of it, for programs.

    Attributes:
        mode, status: of the last task, which is the plan where only that was asked for.
        planned, steps: reports without their signed receipts.
        receipts: each receipt's predicate.
        chain: what verifying all receipts found.
    """

    mode: str = ""
    status: str = ""
    error_code: str = ""
    error_message: str = ""
    error_hint: str = ""
    plan_digest: str = ""
    planned: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    log: list[dict[str, Any]] = []
    receipts: list[dict[str, Any]] = []
    chain: ChainReport | None = None

    @property
    def ok(self) -> bool:
        wanted = TaskStatus.PLANNED if self.mode == TaskMode.PLAN else TaskStatus.SUCCEEDED
        return self.status == wanted and self.chain is not None and self.chain.ok


class Teller:
    """Reads the outbox whenever rows were added; `told` is complete when the rehearsal has ended."""

    def __init__(self, journal: Journal, key: PublicKey, node_id: str, tell: Callable[[str], None]) -> None:
        self._journal, self._key, self._node_id, self._tell = journal, key, node_id, tell
        self._seen = 0
        self._wake = asyncio.Event()
        self._final: TaskReport | None = None
        self.told = Told()
        journal.on_outbox(self._wake.set)

    def say(self, line: str) -> None:
        """One line; nothing in it may steer a terminal."""
        self._tell("".join(c if c.isprintable() else "?" for c in line.expandtabs(4)))

    def begin(self, mode: TaskMode) -> None:
        """A task is about to be sent."""
        self.told.mode, self._final = mode.value, None
        self.say(f"sent        a signed task to {'plan' if mode is TaskMode.PLAN else 'run'} it")

    def progress(self, step: StepProgress) -> None:
        total = f" of {step.total_units}" if step.total_units else ""
        self.say(f"  {step.step_id}: {step.done_units}{total} {step.unit} {step.note}".rstrip())

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        failed: HostlerError | None = None
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._listen())
            try:
                yield
            except HostlerError as err:
                failed = err
            finally:
                reading.cancel()
        if failed is not None:  # as it was, not in a group
            raise failed

    async def ended(self) -> TaskReport:
        """How the task ended, once everything about it was said and its receipts were verified."""
        await self._drain()
        if self._final is None:
            raise error("internal_error", "the task ended and left no report")
        receipts = self._journal.receipts()
        self.told.receipts = [_predicate(receipt) for receipt in receipts]
        chain = self.told.chain = verify_chain(receipts, [self._key], self._node_id)
        if receipts:
            why = "" if chain.fault is None else f": {chain.fault.message}"
            self.say(f"receipts    {len(receipts)}, {'signed and chained' if chain.ok else 'NOT IN ORDER'}{why}")
        return self._final

    async def _listen(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._drain()

    async def _drain(self) -> None:
        while rows := await self._journal.pending(self._seen, _ROWS):
            for sequence, data in rows:
                if sequence > self._seen:
                    self._seen = sequence
                    self._body(decode_body(data))

    def _body(self, body: Body) -> None:
        if isinstance(body, LogLine):
            self.told.log.append({"step_id": body.step_id, "stream": body.stream, "text": body.text})
            self.say(f"  | {body.text}")
        elif isinstance(body, StepReport):
            self._step(body)
        else:
            self._task(body)

    def _step(self, body: StepReport) -> None:
        if body.status is StepStatus.RUNNING:
            return self.say(f"running     {body.step_id} ({body.step_kind})")
        shown = {
            "step_id": body.step_id, "step_kind": body.step_kind, "status": body.status.value,
            "error_code": body.error_code, "error_message": body.error_message, "error_hint": body.error_hint,
            "resolved_profile": body.resolved_profile, "receipt_digest": body.receipt_digest,
            "outputs": msgspec.json.decode(body.outputs_json or b"{}"),
        }  # fmt: skip
        if body.status is StepStatus.PLANNED:
            return self._planned(body, shown)
        self.told.steps.append(shown)
        took = f" in {(body.finished_at_ms - body.started_at_ms) / 1000:.1f} s"
        self.say(f"{body.status.value:11} {body.step_id}{took}{_because(body)}")
        for name, value in shown["outputs"].items():
            self.say(f"  {name} = {msgspec.json.encode(value).decode()[:200]}")
        return None

    def _planned(self, body: StepReport, shown: dict[str, Any]) -> None:
        shown["plan"] = msgspec.json.decode(body.plan_json or b"{}")
        self.told.planned.append(shown)
        self.say(f"planned     {body.step_id} ({body.step_kind})")
        for change in shown["plan"].get("changes", ()):
            self.say(f"  {change['action']:8} {change['target']}")
            for line in change["detail"].splitlines()[:_DETAIL_LINES]:
                self.say(f"    {line}")

    def _task(self, body: TaskReport) -> None:
        if body.status is TaskStatus.RUNNING:
            return
        self._final = body
        told = self.told
        told.status, told.error_code = body.status.value, body.error_code
        told.plan_digest = body.plan_digest or told.plan_digest
        told.error_message, told.error_hint = body.error_message, body.error_hint
        self.say(f"{body.status.value:11} {'the plan' if told.mode == TaskMode.PLAN else 'the task'}{_because(body)}")
        if body.error_hint:
            self.say(f"  {body.error_hint}")


def _because(body: StepReport | TaskReport) -> str:
    return f": {body.error_message} [{body.error_code}]" if body.error_code else ""


def _predicate(receipt: bytes) -> dict[str, Any]:
    statement = msgspec.json.decode(base64.b64decode(msgspec.json.decode(receipt)["payload"]))
    predicate: dict[str, Any] = statement["predicate"]
    return predicate
