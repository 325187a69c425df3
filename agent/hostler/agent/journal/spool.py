"""Output of workloads on its way up: as much at a time as the link takes, never more than the disk may hold (OB-07).

    runtime's own log file ──(read by cursor, as fast as `ship` returns)──▶ outbox ──▶ control plane ──▶ `trimmed`

The runtime's file is the spool. A batch and the cursor behind it are one commit, so that a restart of the agent
neither loses a line nor sends one twice. While the link is down, waiting batches fill their quota and then nobody
reads: the runtime's file grows to its limit and drops its oldest part, and the reader says how much (`Line.lost`).
The oldest, because the end of a log tells why a task failed.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec

from hostler.agent.journal.journal import Journal
from hostler.agent.journal.rows import TaskKey
from hostler.base.clock import Clock, Pace
from hostler.wire.report import LogLine

ROW_COST = 256  # of one line besides its text: what it weighs in the outbox, on the wire and in the store


class LogLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[logs]` of `agent.toml`. Bytes count each line's text and 256 more.

    Attributes:
        task_waiting_bytes, node_waiting_bytes: how much may wait for the control plane.
        task_bytes_per_second, node_bytes_per_second: how fast output is read; a burst of one second is free.
    """

    task_waiting_bytes: int = 4 << 20
    node_waiting_bytes: int = 32 << 20
    task_bytes_per_second: int = 1 << 19
    node_bytes_per_second: int = 1 << 20

    def __post_init__(self) -> None:
        if min(msgspec.structs.astuple(self)) < 65_536:
            raise ValueError("each limit of [logs] is at least 65536 bytes")


class LogSpool:
    """One a node. `ship` returns when its lines are on disk and the next may come."""

    def __init__(self, journal: Journal, clock: Clock, limits: LogLimits) -> None:
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._pace = Pace(limits.node_bytes_per_second, clock)
        self._waiting: deque[tuple[int, str, int]] = deque()  # last row of a batch, its task, its cost
        self._of_task: dict[str, int] = {}
        self._room = asyncio.Event()
        self.waiting_bytes = 0
        self.shipped_lines = 0
        rows, last = journal.outbox_weight()
        self._keep(last, "", rows)  # of before a restart: nobody's, but on the disk all the same
        journal.on_trim(self._trimmed)

    def pace(self) -> Pace:
        """One task's own."""
        return Pace(self._limits.task_bytes_per_second, self._clock)

    async def ship(self, key: TaskKey, lines: Sequence[LogLine], mark: tuple[str, dict[str, str]], pace: Pace) -> None:
        """Lines of one task and the place behind them, in one commit.

        Args:
            mark: name and content of the checkpoint that says where to go on.
        """
        cost = sum(len(line.text) + ROW_COST for line in lines)
        await asyncio.sleep(max(pace.debt(cost), self._pace.debt(cost)))
        await self._until_room(key.task_id)
        last = await self._journal.ship(key, lines, *mark)
        self.shipped_lines += len(lines)
        self._keep(last, key.task_id, cost)

    async def _until_room(self, task_id: str) -> None:
        limits = self._limits
        while (
            self.waiting_bytes >= limits.node_waiting_bytes
            or self._of_task.get(task_id, 0) >= limits.task_waiting_bytes
        ):
            self._room.clear()
            await self._room.wait()

    def _keep(self, last: int, task_id: str, cost: int) -> None:
        if cost:
            self._waiting.append((last, task_id, cost))
            self.waiting_bytes += cost
            self._of_task[task_id] = self._of_task.get(task_id, 0) + cost

    def _trimmed(self, up_to: int) -> None:
        while self._waiting and self._waiting[0][0] <= up_to:
            _, task_id, cost = self._waiting.popleft()
            self.waiting_bytes -= cost
            left = self._of_task[task_id] - cost
            if left:
                self._of_task[task_id] = left
            else:
                del self._of_task[task_id]
        self._room.set()
