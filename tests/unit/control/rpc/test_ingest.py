"""N1: a node that floods waits for its own rate; one that says little waits for nobody."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from hostler.control.rpc.ingest import Ingest, parts
from hostler.wire.report import LogLine, Report, TaskReport, TaskStatus
from support.clocks import StillClock


def batch(count: int, size: int = 744) -> list[Report]:
    line = LogLine(task_id="t", attempt_uid="a", step_id="s", step_index=0, stream="stdout", text="x" * size, at_ms=1)
    return [Report(number, line) for number in range(count)]


async def seconds(waiting: "asyncio.Future[None] | object") -> float:
    started = time.monotonic()
    await waiting  # type: ignore[misc]
    return time.monotonic() - started


async def waits(admitting: Coroutine[Any, Any, None]) -> bool:
    """Whether it is held up at all, however slow this machine is."""
    task = asyncio.create_task(admitting)
    await asyncio.sleep(0)
    return task.cancel()


async def test_N1_a_batch_above_the_rate_waits() -> None:
    share = Ingest(StillClock(), node_rate=100_000, total_rate=10_000_000).share()
    assert not await waits(share.admit(batch(100))), "a second's worth is free"
    assert await seconds(share.admit(batch(20))) > 0.15


async def test_N1_who_says_little_does_not_wait_for_those_who_flood() -> None:
    ingest = Ingest(StillClock(), node_rate=100_000_000, total_rate=100_000)
    loud, quiet = ingest.share(), ingest.share()
    flooding = asyncio.create_task(loud.admit(batch(500)))
    await asyncio.sleep(0)
    assert not await waits(quiet.admit(batch(10)))
    assert not flooding.done()
    flooding.cancel()


async def test_reports_without_lines_never_wait() -> None:
    share = Ingest(StillClock(), node_rate=1, total_rate=1).share()
    report = Report(1, TaskReport(task_id="t", attempt_uid="a", status=TaskStatus.RUNNING))
    assert not await waits(share.admit([report] * 100))


def test_N1_a_long_batch_is_folded_in_short_ones() -> None:
    whole = tuple(batch(1000))
    made = list(parts(whole))
    assert [report for part in made for report in part] == list(whole)
    assert {len(part) for part in made[:-1]} == {66}
    others = tuple(Report(n, TaskReport(task_id="t", attempt_uid="a", status=TaskStatus.RUNNING)) for n in range(500))
    assert list(parts(others)) == [others], "what is no line costs nothing here"
    assert list(parts(())) == []
