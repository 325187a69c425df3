"""What a workload writes: lines of its runtime, redacted, cut into parts that travel, shipped with their cursor."""

from collections.abc import Sequence

from hostler.agent.containers.runtime import Line
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.spool import LogSpool
from hostler.agent.runner.steplog import MAX_LINE, Redact
from hostler.agent.runner.work import key_of
from hostler.base.clock import Clock
from hostler.wire.report import LogLine
from hostler.wire.task import TaskSpec

MAIN, AGENT = "main", "agent"


class WorkLog:
    """Of one step of one attempt. What an earlier attempt has read says nothing of this one's container."""

    def __init__(
        self, journal: Journal, spool: LogSpool, clock: Clock, redact: Redact, task: TaskSpec, index: int
    ) -> None:
        self._journal = journal
        self._spool = spool
        self._pace = spool.pace()
        self._clock = clock
        self._redact = redact
        self._task = task
        self._index = index
        self._step_id = task.steps[index].step_id

    def cursor(self, phase: str = MAIN) -> str:
        """Behind the last line that was shipped; "" to begin."""
        stored = self._journal.checkpoint(key_of(self._task), self._mark(phase))
        return str(stored["cursor"]) if stored.get("attempt") == self._task.attempt_uid else ""

    async def batch(self, lines: Sequence[Line], phase: str = MAIN) -> None:
        """Returns when the lines are on disk, and it is time for more."""
        if not lines:
            return
        made = [part for line in lines for part in self._parts(line, phase)]
        stored = {"attempt": self._task.attempt_uid, "cursor": lines[-1].cursor}
        await self._spool.ship(key_of(self._task), made, (self._mark(phase), stored), self._pace)

    def _mark(self, phase: str) -> str:
        return f"{self._step_id}/log/{phase}"  # no step id holds a slash

    def _parts(self, line: Line, phase: str) -> list[LogLine]:
        """Redacted whole, so that no secret hides in a cut."""
        at_ms = line.at_ms or self._clock.now_ms()
        text = self._redact(line.text).encode("utf-8", "replace").decode()  # no half character travels
        cuts = range(0, max(1, len(text)), MAX_LINE)
        parts = [
            self._made(line.stream, text[cut : cut + MAX_LINE], phase, at_ms, partial=cut != cuts[-1] or not line.whole)
            for cut in cuts
        ]
        if line.lost:
            said = f"{line.lost} bytes of output were dropped on the node: they were not read before its log was full"
            parts.insert(0, self._made(AGENT, said, phase, at_ms, partial=False))
        return parts

    def _made(self, stream: str, text: str, phase: str, at_ms: int, *, partial: bool) -> LogLine:
        return LogLine(
            task_id=self._task.task_id,
            attempt_uid=self._task.attempt_uid,
            step_id=self._step_id,
            step_index=self._index,
            stream=stream,
            text=text,
            at_ms=at_ms,
            partial=partial,
            phase=phase,
        )
