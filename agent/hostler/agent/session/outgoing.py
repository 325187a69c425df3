"""What goes up, in the order it should: hello first, then acceptances, reports, heartbeats, progress.

One `Outgoing` lives as long as one link. Reports come from the journal's outbox by cursor and are sent again
from the last acknowledgement on every new link, so nothing is lost and the control plane folds each once.
"""

import asyncio
from collections.abc import Callable

from hostler.agent.journal.journal import Journal
from hostler.v1 import node_pb2
from hostler.wire.codec_node import agent_message
from hostler.wire.codec_report import with_sequence
from hostler.wire.node import Heartbeat, Progress, TaskAccepted
from hostler.wire.report import StepProgress

MAX_ROWS = 256
MAX_BYTES = 1 << 20


class Outgoing:
    """Waits until there is something to send and gives it in batches."""

    def __init__(self, journal: Journal, beat: Callable[[], Heartbeat]) -> None:
        self._journal = journal
        self._beat = beat
        self._wake = asyncio.Event()
        self._accepted: list[str] = []
        self._progress: dict[tuple[str, str], StepProgress] = {}
        self._sent = 0
        self._more = True
        self._up = asyncio.Event()
        self._next_beat = 0.0
        self._interval_s = 30.0

    def link_down(self) -> None:
        """Nothing is sent before the next welcome: a row past a lost one would acknowledge both."""
        self._up.clear()

    def link_up(self, interval_s: float) -> None:
        """A new link: everything not acknowledged is sent again, from the oldest on."""
        self._up.set()
        self._sent, self._more = 0, True
        self._interval_s = max(1.0, interval_s)
        self._next_beat = asyncio.get_running_loop().time() + self._interval_s
        self._wake.set()

    def rows_added(self) -> None:
        self._more = True
        self._wake.set()

    def accepted(self, task_id: str) -> None:
        self._accepted.append(task_id)
        self._wake.set()

    def progress(self, step: StepProgress) -> None:
        """Only the newest of a step is worth sending."""
        self._progress[step.task_id, step.step_id] = step
        self._wake.set()

    def beat_now(self) -> None:
        self._next_beat = 0.0
        self._wake.set()

    async def next_batch(self) -> list[node_pb2.AgentMessage]:
        """The messages to send now; waits while there are none."""
        while True:
            await self._up.wait()
            self._wake.clear()
            batch = await self._collect()
            if batch:
                return batch
            pause = max(0.0, self._next_beat - asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _collect(self) -> list[node_pb2.AgentMessage]:
        batch: list[node_pb2.AgentMessage] = []
        if self._accepted:
            batch.append(agent_message(TaskAccepted(tuple(self._accepted))))
            self._accepted.clear()
        if self._more:
            reports = await self._reports()
            if reports is not None:
                batch.append(reports)
        if self._progress:
            batch.append(agent_message(Progress(tuple(self._progress.values()))))
            self._progress.clear()
        now = asyncio.get_running_loop().time()
        if now >= self._next_beat:
            self._next_beat = now + self._interval_s
            batch.append(agent_message(self._beat()))
        return batch

    async def _reports(self) -> node_pb2.AgentMessage | None:
        self._more = False
        rows = await self._journal.pending(self._sent, MAX_ROWS)
        if not rows:
            return None
        message = node_pb2.AgentMessage()
        size = 0
        for sequence, body in rows:
            if size and size + len(body) > MAX_BYTES:
                break
            message.reports.reports.append(with_sequence(sequence, body))
            size += len(body)
            self._sent = sequence
        self._more = len(message.reports.reports) < len(rows) or len(rows) == MAX_ROWS
        if self._more:
            self._wake.set()
        return message
