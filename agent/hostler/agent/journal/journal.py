"""The journal's face: everything that must survive this process goes through here."""

import asyncio
import functools
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hostler.agent.journal import allocations, binding, catalogs, chain, meta, outbox, refusals, steps, tasks
from hostler.agent.journal.compact import compact
from hostler.agent.journal.db import open_pair, storage_error
from hostler.agent.journal.rows import (
    OPEN,
    Acceptable,
    Cancelling,
    ChainHead,
    KnownTask,
    PastStep,
    Receipt,
    Refusable,
    ReusableStep,
    StepEnd,
    StepStart,
    StoredTask,
    TaskKey,
)
from hostler.agent.journal.truth import Asker, TaskTruth, truth_of
from hostler.agent.journal.writer import Writer
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.wire.report import LogLine, TaskReport, TaskStatus

T = TypeVar("T")
HEALTHY = "ok"
TRIM_S = 0.2  # from an acknowledgement to the commit that drops what was acknowledged
TRIM_AGAIN_S = 2.0  # where the disk did not take it
MAX_OUTBOX_ROWS = 200_000  # past it, log lines are dropped and counted; steps and results never


class Journal:
    """Open it with `open`; all methods run on the loop that did.

    Attributes:
        storage: `ok`, or the `error_code` of the last write that failed; the next that works heals it.
        high_sequence: the highest sequence of an envelope that was meant for this node, in this epoch.
        control_epoch: the epoch those sequences are of; it never falls.
        dropped_lines: log lines given up because the outbox was full.
        scheduling: what operators want of this node, "" for schedulable; kept over restarts (EF-07).
        binding: the allocation this node is in, None for none; a task that was taken counts before it is on disk.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        write, read = open_pair(path)
        self._path = path
        self._clock = clock
        self._read = read
        self._writer = Writer(write, lambda err: storage_error(err, path), self._committed)
        self._wakes: list[Callable[[], None]] = []
        self._trims: list[Callable[[int], None]] = []
        self._trimming: asyncio.TimerHandle | None = None
        self._closed = False
        self._arriving: dict[str, KnownTask] = {}
        self._succeeded: tuple[str, ...] = ()  # the first two: enough to know of one besides any
        self._flood = refusals.Flood(clock)
        self._sign_refusal: Callable[[Refusable, ChainHead], bytes] | None = None
        self._trimmed, self._last_row = outbox.ends(read)
        self.storage = HEALTHY
        self.high_sequence = meta.mark(read, meta.SEQUENCE)
        self.control_epoch = meta.mark(read, meta.EPOCH)
        self._held_epoch = meta.mark(read, meta.HELD)
        self.dropped_lines = 0
        self.binding = binding.load(read)
        self.scheduling = (meta.get(read, meta.SCHEDULING) or b"").decode()

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> "Journal":
        """Raises `storage_unhealthy`; whatever is wrong with the file, it is kept."""
        return cls(path, clock)

    async def close(self) -> None:
        """Finishes what was asked for, then closes the file."""
        self._closed = True
        if self._trimming is not None:
            self._trimming.cancel()
            self._trim_now()
        await self._writer.close()
        self._read.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        return self._writer.write(work)

    def _committed(self, failure: HostlerError | None) -> None:
        self.storage = failure.code if failure else HEALTHY
        if failure:
            return
        _, last = outbox.ends(self._read)
        if last > self._last_row:
            self._last_row = last
            for wake in self._wakes:
                wake()

    # -- tasks --------------------------------------------------------------------------------

    def known(self, task_id: str) -> KnownTask | None:
        """Also tasks whose acceptance is still on its way to the disk."""
        return self._arriving.get(task_id) or tasks.known(self._read, task_id)

    def accept(self, admitted: Acceptable) -> Coroutine[Any, Any, None]:
        """Known from the call on, so that the next envelope is judged by it; durable when awaited.

        Raises:
            HostlerError: `replayed`, or the storage's error, when awaited.
        """
        spec = admitted.spec
        arriving = KnownTask(spec.task_id, spec.attempt_number, spec.attempt_uid, OPEN, admitted.envelope_digest)
        self._arriving.setdefault(spec.task_id, arriving)
        self.binding = binding.after_accept(self.binding, spec)
        self._raise_sequence(spec.sequence)
        write = self._write(functools.partial(tasks.accept, task=admitted, now_ms=self._clock.now_ms()))
        return self._acceptance(admitted, arriving, write)

    async def _acceptance(self, admitted: Acceptable, arriving: KnownTask, write: "asyncio.Future[None]") -> None:
        spec = admitted.spec
        try:
            await write
            self._raise_sequence(spec.sequence)
        except HostlerError:
            self._reload_marks()
            raise
        finally:
            if self._arriving.get(spec.task_id) is arriving:
                del self._arriving[spec.task_id]

    async def refuse(self, refusal: Refusable) -> None:
        """Exactly one receipt for each envelope. A flood of forgeries is counted, not written."""
        if self._sign_refusal is None:
            raise error("internal_error", "the journal has nobody to sign refusals")
        if not refusal.authentic and not self._flood.passes():
            return
        sign = functools.partial(self._sign_refusal, refusal)
        await self._write(functools.partial(refusals.refuse, refusal=refusal, sign=sign))
        if refusal.addressed:
            self._raise_sequence(refusal.sequence)

    def sign_refusals_with(self, sign: Callable[[Refusable, ChainHead], bytes]) -> None:
        """Who makes the receipt of a refusal; the runner does, with the node's key."""
        self._sign_refusal = sign

    @property
    def refusals_unwritten(self) -> int:
        """Forged envelopes that left no receipt, because there were too many."""
        return self._flood.counted

    async def replayed(self, task_id: str) -> None:
        """Reports the first result once more; nothing while the task still runs."""
        await self._write(functools.partial(tasks.replay, task_id=task_id))

    def truth(self, task_id: str, attempt_uid: str, asker: Asker) -> TaskTruth:
        """What is known here of one attempt, for whoever may know it."""
        return truth_of(self._read, task_id, attempt_uid, asker)

    async def cancel(self, admitted: Cancelling) -> bool:
        """True when the task is open and its runner has to be told; else the answer is in the outbox.

        The wish is durable: `StoredTask.cancel_requested` tells a restart.
        """
        spec = admitted.spec
        self._raise_sequence(spec.sequence)
        try:
            return await self._write(functools.partial(tasks.cancel, order=admitted, now_ms=self._clock.now_ms()))
        except HostlerError:
            self._reload_marks()
            raise

    async def open_tasks(self) -> list[StoredTask]:
        return tasks.open_tasks(self._read)

    def open_attempts(self) -> set[str]:
        return tasks.open_attempts(self._read)

    def has_succeeded(self, *, but: str) -> bool:
        """Whether a task other than `but` has succeeded in this process: no clock is asked, for they are set."""
        return any(task_id != but for task_id in self._succeeded)

    async def finish_task(self, key: TaskKey, report: TaskReport, trace: str = "") -> bool:
        """False, and no effect, when the task had ended before."""
        ended = await self._write(functools.partial(tasks.finish, key=key, report=report, trace=trace))
        self._note_end(report if ended else None)
        return ended

    def _note_end(self, final: TaskReport | None) -> None:
        if final is not None and final.status == TaskStatus.SUCCEEDED:
            self.binding = binding.after_success(self.binding, final.task_id)
            self._succeeded = tuple(dict.fromkeys((*self._succeeded, final.task_id)))[:2]

    # -- steps --------------------------------------------------------------------------------

    async def begin_step(self, start: StepStart) -> None:
        """The intent is on disk when it returns; before that nothing may be applied."""
        await self._write(functools.partial(steps.begin, start=start))

    async def finish_step(self, end: StepEnd, sign: Callable[[ChainHead], bytes] | None) -> Receipt | None:
        """Outcome, receipt, report and log lines in one transaction; `sign` runs inside it."""
        receipt = await self._write(functools.partial(steps.finish, end=end, sign=sign))
        self._note_end(end.final)
        return receipt

    def reusable(self, task_id: str, step_id: str, receipt_digest: str) -> ReusableStep | None:
        return steps.reusable(self._read, task_id, step_id, receipt_digest)

    async def save_checkpoint(self, key: TaskKey, step_id: str, data: dict[str, Any]) -> None:
        await self._write(functools.partial(steps.save_checkpoint, key=key, step_id=step_id, data=data))

    def checkpoint(self, key: TaskKey, step_id: str) -> dict[str, Any]:
        return steps.checkpoint(self._read, key, step_id)

    def past(self, allocation_id: str) -> tuple[PastStep, ...]:
        """Every step that ended here for an allocation, oldest first."""
        return allocations.past(self._read, allocation_id)

    # -- outbox -------------------------------------------------------------------------------

    async def pending(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Rows past `after`, oldest first, for `wire.codec_report.with_sequence`."""
        return outbox.after(self._read, after, limit)

    async def trim(self, up_to: int) -> None:
        """Drops what was acknowledged."""
        self._trimmed = max(self._trimmed, up_to)
        await self._write(functools.partial(outbox.trim, up_to=up_to))
        for trimmed in self._trims:
            trimmed(up_to)

    def acknowledge(self, up_to: int) -> None:
        """Drops it soon, with what is acknowledged by then. What a crash keeps is sent again, and known there by then.

        So that the disk has no part in it while a step writes what it must, and whoever hears the link waits for none.
        """
        self._trimmed = max(self._trimmed, min(up_to, self._last_row))
        self._trim_in(TRIM_S)

    def _trim_in(self, seconds: float) -> None:
        if self._trimming is None and not self._closed:
            self._trimming = asyncio.get_running_loop().call_later(seconds, self._trim_now)

    def _trim_now(self) -> None:
        self._trimming = None
        up_to = self._trimmed
        done = self._write(functools.partial(outbox.trim, up_to=up_to))
        done.add_done_callback(lambda done: self._was_trimmed(done, up_to))

    def _was_trimmed(self, done: "asyncio.Future[None]", up_to: int) -> None:
        if done.cancelled() or done.exception() is not None:
            self._trim_in(TRIM_AGAIN_S)  # who waits for room has to hear of it once the disk is well (K4)
            return
        for trimmed in self._trims:
            trimmed(up_to)

    def on_trim(self, trimmed: Callable[[int], None]) -> None:
        """`trimmed` is called on the loop with the last row that was acknowledged."""
        self._trims.append(trimmed)

    def outbox_weight(self) -> tuple[int, int]:
        """(bytes that wait, the last row of them)."""
        return outbox.weight(self._read), self._last_row

    async def ship(self, key: TaskKey, lines: Sequence[LogLine], mark: str, data: dict[str, str]) -> int:
        """Log lines and the checkpoint `mark` behind them in one commit; → the last line's row."""

        def work(db: sqlite3.Connection) -> int:
            rows = [outbox.add(db, line) for line in lines]
            steps.save_checkpoint(db, key, mark, data)
            return rows[-1]

        return await self._write(work)

    @property
    def outbox_rows(self) -> int:
        """How many rows wait, at most."""
        return max(0, self._last_row - self._trimmed)

    @property
    def acknowledged(self) -> int:
        """The last row that the control plane has."""
        return self._trimmed

    def append_logs(self, lines: Sequence[LogLine]) -> None:
        """Queues log lines without waiting for the disk; the step's end comes after them."""
        if self.outbox_rows > MAX_OUTBOX_ROWS:
            self.dropped_lines += len(lines)
            return
        done = self._write(lambda db: [outbox.add(db, line) for line in lines])
        done.add_done_callback(self._lines_written)

    def _lines_written(self, done: "asyncio.Future[list[int]]") -> None:
        if not done.cancelled() and done.exception() is not None:
            self.dropped_lines += 1  # the storage word says why

    def on_outbox(self, wake: Callable[[], None]) -> None:
        """`wake` is called on the loop after each commit that added rows."""
        self._wakes.append(wake)

    # -- catalog, chain, health ---------------------------------------------------------------

    async def save_catalog(self, manifest: bytes, documents: tuple[bytes, ...]) -> None:
        await self._write(functools.partial(catalogs.save, manifest=manifest, documents=documents))

    async def load_catalog(self) -> tuple[bytes, tuple[bytes, ...]] | None:
        return catalogs.load(self._read)

    def document(self, digest: str) -> bytes | None:
        """A document of this or an earlier accepted catalog."""
        return catalogs.document(self._read, digest)

    async def save_resolver(self, record: bytes) -> None:
        """Which resolver configuration is active, from this commit on."""
        await self._write(functools.partial(meta.put, key=meta.RESOLVER, value=record))

    def load_resolver(self) -> bytes | None:
        return meta.get(self._read, meta.RESOLVER)

    async def begin_epoch(self, epoch: int) -> None:
        """Takes up an epoch that the root has signed; nothing for one that is not above the present.

        Sequences start again and a hold ends. What was executed stays known for ever.
        """
        if epoch <= self.control_epoch:
            return
        await self._write(functools.partial(meta.begin_epoch, epoch=epoch))
        self._reload_marks()

    @property
    def held(self) -> bool:
        """The control plane has forgotten what this node saw of it: nothing new runs in this epoch (P1)."""
        return self._held_epoch >= self.control_epoch > 0

    async def hold(self) -> None:
        """Until `begin_epoch`, also over restarts."""
        if not self.held:
            await self._write(functools.partial(meta.raise_mark, key=meta.HELD, value=self.control_epoch))
            self._held_epoch = self.control_epoch

    async def schedule(self, scheduling: str) -> None:
        """Keeps what operators want of this node; counts at once, also if the disk does not take it."""
        self.scheduling = scheduling
        await self._write(functools.partial(meta.put, key=meta.SCHEDULING, value=scheduling.encode()))

    def chain_head(self) -> ChainHead:
        return chain.head(self._read)

    def receipts(self, start: int = 0, limit: int = 1000) -> list[bytes]:
        """DSSE JSON, oldest first."""
        return chain.receipts(self._read, start, limit)

    async def compact(self, before_ms: int) -> int:
        return await self._write(functools.partial(compact, before_ms=before_ms))

    async def check(self) -> str:
        """Tries a write and returns `storage`: how an idle agent notices that its disk is well again."""
        try:
            await self._write(functools.partial(meta.raise_mark, key=meta.CHECKED, value=self._clock.now_ms()))
        except HostlerError as err:
            return err.code
        return self.storage

    def _raise_sequence(self, sequence: int) -> None:
        """Before the disk has it, so that the next envelope of the same batch is judged by it."""
        self.high_sequence = max(self.high_sequence, sequence)

    def _reload_marks(self) -> None:
        """After a failed write only what is on disk counts."""
        self.high_sequence = meta.mark(self._read, meta.SEQUENCE)
        self.control_epoch = meta.mark(self._read, meta.EPOCH)
        self.binding = binding.load(self._read)
