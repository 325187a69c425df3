"""What a running step says: log lines in batches to the outbox, progress at most so often. Both bounded."""

import asyncio
from collections.abc import Callable

from hostler.agent.journal.journal import Journal
from hostler.base.clock import Clock
from hostler.wire.report import LogLine, StepProgress
from hostler.wire.task import TaskSpec

BATCH_LINES = 200
BATCH_SECONDS = 0.05
MAX_LINES = 10_000
MAX_BYTES = 4 * 1024 * 1024
MAX_LINE = 16 * 1024
PROGRESS_SECONDS = 0.2
Redact = Callable[[str], str]


class StepLog:
    """Lines of one step, in order; `rest` gives those that go out with the step's end.

    Args:
        redact: sees every line before it is stored anywhere.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        redact: Redact,
        task: TaskSpec,
        step_index: int,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._redact = redact
        self._task = task
        self._index = step_index
        self._lines: list[LogLine] = []
        self._count = 0
        self._bytes = 0
        self._full = False
        self._timer: asyncio.TimerHandle | None = None

    def line(self, stream: str, text: str) -> None:
        if self._full:
            return
        text = self._redact(text)
        if len(text) > MAX_LINE:
            text = text[:MAX_LINE] + " [cut]"
        self._count += 1
        self._bytes += len(text)
        if self._count > MAX_LINES or self._bytes > MAX_BYTES:
            self._full = True
            stream, text = "agent", f"log truncated after {self._count - 1} lines"
        self._lines.append(self._made(stream, text))
        if len(self._lines) >= BATCH_LINES:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)

    def rest(self) -> tuple[LogLine, ...]:
        """Ends the log: what comes later is dropped."""
        self._full = True
        return self._take()

    def _flush(self) -> None:
        lines = self._take()
        if lines:
            self._journal.append_logs(lines)

    def _take(self) -> tuple[LogLine, ...]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = tuple(self._lines), []
        return lines

    def _made(self, stream: str, text: str) -> LogLine:
        return LogLine(
            task_id=self._task.task_id,
            attempt_uid=self._task.attempt_uid,
            step_id=self._task.steps[self._index].step_id,
            step_index=self._index,
            stream=stream,
            text=text,
            at_ms=self._clock.now_ms(),
        )


class StepMeter:
    """Progress of one step: the first, the last, and at most five a second between."""

    def __init__(self, send: Callable[[StepProgress], None], clock: Clock, task: TaskSpec, step_index: int) -> None:
        self._send = send
        self._clock = clock
        self._task = task
        self._index = step_index
        self._next = float("-inf")
        self._complete = False

    def progress(self, done: int, total: int, unit: str) -> None:
        now = self._clock.monotonic()
        completes = total > 0 and done >= total and not self._complete
        if now < self._next and not completes:
            return
        self._next = now + PROGRESS_SECONDS
        self._complete = self._complete or completes
        self._send(
            StepProgress(
                task_id=self._task.task_id,
                attempt_uid=self._task.attempt_uid,
                step_id=self._task.steps[self._index].step_id,
                step_index=self._index,
                done_units=done,
                total_units=total,
                unit=unit,
                at_ms=self._clock.now_ms(),
            )
        )
