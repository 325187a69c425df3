"""OB-07: what a workload writes arrives once and whole, however often the link breaks and the agent dies under it.

A real control plane, a real journal with its spool and its uplink; the runtime is a script whose cursor is a number.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.logs import ship
from hostler.agent.containers.runtime import Line
from hostler.agent.journal import outbox
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.spool import LogLimits, LogSpool
from hostler.agent.runner.worklog import WorkLog
from hostler.agent.session.outgoing import Outgoing
from hostler.base.clock import SystemClock
from hostler.wire.node import Heartbeat, ReportAck
from hostler.wire.report import TaskReport, TaskStatus
from hostler.wire.task import TaskSpec
from support.builders import definition
from support.fake_node import FakeNode
from support.plane import Plane, plane

pytestmark = pytest.mark.timeout(90)
COUNT = 12_000
LIMITS = LogLimits(task_waiting_bytes=65_536, node_waiting_bytes=262_144, task_bytes_per_second=1 << 30,
                   node_bytes_per_second=1 << 30)  # fmt: skip


class Script:
    """A log of so many lines."""

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        for number in range(int(cursor or 0), COUNT):
            if number % 50 == 0:
                await asyncio.sleep(0.003)
            yield Line("stdout", f"line {number}", True, str(number + 1))


class Agent:
    """What of an agent has to do with logs. It can be killed, and there is a next one."""

    def __init__(self, journal: Journal, spec: TaskSpec) -> None:
        self.journal = journal
        self.spool = LogSpool(journal, SystemClock(), LIMITS)
        log = WorkLog(journal, self.spool, SystemClock(), str, spec, 0)
        self.log_batch, self.log_cursor = log.batch, log.cursor
        self.outgoing = Outgoing(journal, Heartbeat)
        journal.on_outbox(self.outgoing.rows_added)
        self.most_waiting = 0

    async def write(self) -> None:
        await ship(Script(), "c1", "main", self)  # type: ignore[arg-type]

    async def link(self, node: FakeNode, seconds: float) -> None:
        """One link, which breaks off after a while without a word."""
        self.outgoing.link_down()
        async with node.session() as session:
            self.outgoing.link_up(30)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                    group.create_task(self._up(session.call))
                    while True:
                        ack: ReportAck = await session.next(ReportAck, timeout_s=30)
                        self.most_waiting = max(self.most_waiting, self.spool.waiting_bytes)
                        await self.journal.trim(ack.up_to)

    async def _up(self, call: Any) -> None:
        while True:
            for message in await self.outgoing.next_batch():
                await call.write(message)


async def running(control: Plane, node: FakeNode) -> TaskSpec:
    await control.publish(definition())
    async with node.session() as session:
        await control.submit(node)
        (spec,) = await session.take()
    return spec


def stored(control: Plane) -> list[str]:
    return [row[0] for row in control.rows("SELECT text FROM log_lines ORDER BY id")]


async def test_OB_07_links_that_break_and_an_agent_that_dies_lose_and_double_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    async with plane(tmp_path / "control") as control:
        node = await control.enroll()
        spec = await running(control, node)
        report = TaskReport(task_id=spec.task_id, attempt_uid=spec.attempt_uid, status=TaskStatus.RUNNING, at_ms=1)
        first, lives, most = True, 0, 0
        while len(stored(control)) < COUNT:
            lives += 1
            assert lives < 400, "it does not come to an end"
            journal = await Journal.open(tmp_path / "journal.db", SystemClock())
            if first:
                await journal._write(lambda db: outbox.add(db, report))
                first = False
            agent = Agent(journal, spec)
            writing = asyncio.create_task(agent.write())
            for _ in range(3):
                await agent.link(node, rng.uniform(0.02, 0.12))
            most = max(most, agent.most_waiting)
            writing.cancel()
            await asyncio.wait([writing])
            await journal.close()
        assert stored(control) == [f"line {number}" for number in range(COUNT)]
        assert lives > 1, "nothing was killed in the middle"
        assert most <= 2 * LIMITS.task_waiting_bytes + 200 * 512, "the disk was bounded while the link was away"


async def test_OB_07_a_link_that_is_away_for_long_stops_the_reader_and_leaves_no_gap(tmp_path: Path) -> None:
    """The quota fills, nobody reads any more; when the link is back everything comes, in order."""
    async with plane(tmp_path / "control") as control:
        node = await control.enroll()
        spec = await running(control, node)
        journal = await Journal.open(tmp_path / "journal.db", SystemClock())
        agent = Agent(journal, spec)
        writing = asyncio.create_task(agent.write())
        waiting = -1
        while waiting != agent.spool.waiting_bytes or not waiting:
            waiting = agent.spool.waiting_bytes
            await asyncio.sleep(0.5)
        assert waiting < LIMITS.task_waiting_bytes + 200 * 512
        assert not writing.done(), "somebody went on reading"
        while len(stored(control)) < COUNT:
            await agent.link(node, 1.0)
        await writing
        assert stored(control) == [f"line {number}" for number in range(COUNT)]
        await journal.close()
