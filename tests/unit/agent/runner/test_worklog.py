"""OB-07 on the node: what a workload writes is shipped once, whole, and no faster than it is taken."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.logs import ship
from hostler.agent.containers.runtime import Line
from hostler.agent.journal.rows import TaskKey
from hostler.agent.journal.spool import ROW_COST, LogLimits, LogSpool
from hostler.agent.runner.steplog import MAX_LINE
from hostler.agent.steps.contract import StepContext
from hostler.base.clock import Pace
from hostler.base.errors import error
from hostler.wire.report import LogLine, TaskStatus
from support import fake_kind
from support.agent import Core, core
from support.clocks import StillClock
from support.fake_kind import FakeKind
from support.fake_tasks import catalog_of, say

KEY = TaskKey("t1", 1)
ONE = catalog_of(say("one"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


def out(text: str, cursor: str = "1", **more: Any) -> Line:
    return Line(**({"stream": "stdout", "text": text, "whole": True, "cursor": cursor} | more))


@dataclass
class ScriptedRuntime:
    """Gives the lines after a cursor; fails as often as it is told before."""

    lines: list[Line]
    failures: int = 0
    asked: list[str] = field(default_factory=list)

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        self.asked.append(cursor)
        for number, line in enumerate(self.lines):
            if self.failures and number == len(self.lines) // 2:
                self.failures -= 1
                raise OSError("the daemon is gone")
            if not cursor or int(line.cursor) > int(cursor):
                yield line


async def workload(node: Core, fake: FakeKind, doing: Any) -> list[LogLine]:
    """Runs one task that does this, and gives what lies in the outbox after it."""
    fake.on_apply = doing
    await node.run_task()
    (task,) = await node.task_reports()
    assert task.status is TaskStatus.SUCCEEDED, task
    return [line for line in await node.log_lines() if line.stream != "agent" or "dropped" in line.text]


async def test_OB_07_lines_arrive_in_order_with_stream_phase_and_marks(tmp_path: Path, fake: FakeKind) -> None:
    async def doing(context: StepContext) -> None:
        await context.log_batch([out("prepares")], "setup")
        await context.log_batch([out("one"), out("oops", "2", stream="stderr"), out("end", "3", whole=False)], "main")

    async with core(tmp_path, catalog=ONE) as node:
        lines = await workload(node, fake, doing)
    assert [(line.phase, line.stream, line.text, line.partial) for line in lines] == [
        ("setup", "stdout", "prepares", False),
        ("main", "stdout", "one", False),
        ("main", "stderr", "oops", False),
        ("main", "stdout", "end", True),
    ]


async def test_OB_07_a_long_line_is_split_and_nothing_of_it_is_lost(tmp_path: Path, fake: FakeKind) -> None:
    text = "".join(chr(97 + place % 26) for place in range(3 * MAX_LINE + 5))

    async def doing(context: StepContext) -> None:
        await context.log_batch([out(text), out("next", "2")], "main")

    async with core(tmp_path, catalog=ONE) as node:
        lines = await workload(node, fake, doing)
    assert [line.partial for line in lines] == [True, True, True, False, False]
    assert "".join(line.text for line in lines[:4]) == text
    assert all(len(line.text) <= MAX_LINE for line in lines)


async def test_OB_07_half_characters_travel_as_what_they_are_not(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=ONE) as node:
        lines = await workload(node, fake, lambda context: context.log_batch([out("a\udcffb\u00fc")], "main"))
    assert [line.text for line in lines] == ["a?b\u00fc"]


async def test_SE_10_secrets_are_redacted_before_a_line_is_cut(tmp_path: Path, fake: FakeKind) -> None:
    text = "x" * (MAX_LINE - 3) + "SECRET" + "y"

    def redact(line: str) -> str:
        return line.replace("SECRET", "***")

    async with core(tmp_path, catalog=ONE, redact=redact) as node:
        lines = await workload(node, fake, lambda context: context.log_batch([out(text)], "main"))
    assert "SECRET" not in "".join(line.text for line in lines)
    assert "SEC" not in lines[0].text


async def test_OB_07_what_the_runtime_dropped_is_said_in_one_line(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=ONE) as node:
        lines = await workload(
            node, fake, lambda context: context.log_batch([out("a"), out("z", "900", lost=12345), out("end")], "main")
        )
    assert [line.stream for line in lines] == ["stdout", "agent", "stdout", "stdout"]
    assert lines[1].text.startswith("12345 bytes of output were dropped")


async def test_OB_07_a_restart_goes_on_behind_what_was_shipped(tmp_path: Path, fake: FakeKind) -> None:
    """The cursor is in the same commit as the lines; another attempt's says nothing."""
    cursors: list[str] = []

    async def doing(context: StepContext) -> None:
        cursors.append(context.log_cursor("main"))
        await context.log_batch([out("a", "17")], "main")
        cursors.append(context.log_cursor("main"))
        cursors.append(context.log_cursor("setup"))
        raise error("exit_status", "it ended with 1")

    async with core(tmp_path, catalog=ONE) as node:
        fake.on_apply = doing
        spec = await node.run_task()
        assert cursors == ["", "17", ""]
        cursors.clear()
        await node.run_task(task_id=spec.task_id, attempt_number=2, attempt_uid="another")
        assert cursors[0] == ""


async def test_OB_07_a_reader_waits_for_a_daemon_and_ships_nothing_twice(tmp_path: Path) -> None:
    shipped: list[Line] = []

    class Sink:
        async def log_batch(self, lines: Any, phase: str) -> None:
            shipped.extend(lines)

        def log_cursor(self, phase: str) -> str:
            return shipped[-1].cursor if shipped else ""

    runtime = ScriptedRuntime([out(str(number), str(number)) for number in range(1, 1001)])
    await asyncio.wait_for(ship(runtime, "c1", "main", Sink()), 10)  # type: ignore[arg-type]
    assert [line.text for line in shipped] == [str(number) for number in range(1, 1001)]
    runtime.failures = 1
    shipped.clear()
    with pytest.raises(OSError, match="daemon"):
        await ship(runtime, "c1", "main", Sink())  # type: ignore[arg-type]
    await ship(runtime, "c1", "main", Sink())  # type: ignore[arg-type]
    assert [line.text for line in shipped] == [str(number) for number in range(1, 1001)]


async def test_OB_07_nobody_reads_while_nothing_is_taken(tmp_path: Path) -> None:
    """The quota of a task and of the node bound the outbox while the link is down; an acknowledgement frees it."""
    limits = LogLimits(task_waiting_bytes=65_536, node_waiting_bytes=131_072)
    batch = [_line("t1", "x" * 768)] * 64  # 64 KiB
    async with core(tmp_path, catalog=ONE) as node:
        spool = LogSpool(node.journal, StillClock(), limits)
        pace = Pace(1 << 40, StillClock())
        spool._pace = pace
        await spool.ship(KEY, batch, ("s/log/main", {"cursor": "1"}), pace)
        second = asyncio.create_task(spool.ship(KEY, batch, ("s/log/main", {"cursor": "2"}), pace))
        other = [_line("t2", "y" * 768)] * 64
        await asyncio.wait_for(spool.ship(TaskKey("t2", 1), other, ("s/log/main", {"cursor": "1"}), pace), 5)
        third = asyncio.create_task(spool.ship(TaskKey("t3", 1), other, ("s/log/main", {"cursor": "1"}), pace))
        await asyncio.sleep(0.1)
        assert not second.done(), "the task has used its quota"
        assert not third.done(), "the node has used its quota"
        assert spool.waiting_bytes == 2 * 64 * (768 + ROW_COST)
        await node.journal.trim(node.journal._last_row)
        await asyncio.wait_for(asyncio.gather(second, third), 5)
        assert node.journal.checkpoint(KEY, "s/log/main") == {"cursor": "2"}


async def test_OB_07_what_waited_before_a_restart_counts_for_the_node(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=ONE) as node:
        node.journal.append_logs([_line("t1", "z" * 500)] * 100)
        await node.journal.check()
    async with core(tmp_path, catalog=ONE) as node:
        spool = LogSpool(node.journal, StillClock(), LogLimits())
        assert 50_000 < spool.waiting_bytes < 70_000
        await node.journal.trim(node.journal._last_row)
        assert spool.waiting_bytes == 0


def test_OB_07_a_flood_is_read_at_its_rate() -> None:
    clock = StillClock()
    pace = Pace(1000, clock)
    assert pace.debt(1000) == 0.0, "a burst of a second is free"
    assert pace.debt(500) == pytest.approx(0.5)
    assert pace.debt(500) == pytest.approx(1.0)


def test_limits_too_small_to_move_a_line_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 65536"):
        LogLimits(task_waiting_bytes=1)


def _line(task_id: str, text: str) -> LogLine:
    return LogLine(task_id=task_id, attempt_uid="a", step_id="s", step_index=0, stream="stdout", text=text, at_ms=1)
