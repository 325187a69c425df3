"""OB-07 and OD-31 in the store: lines by task and attempt, and old ones gone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.control.kernel.commands import TargetSelector
from hostler.control.loops.prune import prune_logs
from hostler.wire.report import LogLine
from hostler.wire.task import TaskSpec
from support.builders import definition, render_step
from support.control import Fleet, fleet_in

DAY_MS = 86_400_000


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_in(tmp_path) as made:
        await made.publish(definition(render_step("s0")))
        yield made


def lines(spec: TaskSpec, *texts: str) -> list[LogLine]:
    common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid, "step_id": "s", "step_index": 0}
    return [LogLine(**common, stream="stdout", text=text, at_ms=1, phase="main") for text in texts]


async def texts(fleet: Fleet, operation_id: str, **chosen: int) -> list[str]:
    return [line.text for line in await fleet.engine.reader.log_lines(operation_id, 0, 100, **chosen)]


async def test_OB_07_lines_of_one_task_or_one_attempt(fleet: Fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node, target_selector=TargetSelector(nodes=(node.node_id,), replicas=2))
    one, two = await fleet.take(node)
    await fleet.report(node, *lines(one, "of one"), *lines(two, "of two"))
    assert {one.replica_index, two.replica_index} == {0, 1}
    assert await texts(fleet, operation_id) == ["of one", "of two"]
    assert await texts(fleet, operation_id, task=two.replica_index) == ["of two"]
    assert await texts(fleet, operation_id, attempt=1) == ["of one", "of two"]
    assert await texts(fleet, operation_id, attempt=2) == []
    assert await texts(fleet, operation_id, task=one.replica_index, attempt=1) == ["of one"]


async def test_OD_31_lines_go_when_they_are_old_by_the_control_planes_clock(fleet: Fleet) -> None:
    """The node's clock says 1970 of every line; that alone drops none."""
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    await fleet.report(node, *lines(spec, "old"))
    await fleet.submit(node)  # an event behind the line
    assert await prune_logs(fleet.engine, 14) == 0
    fleet.clock.move(15 * DAY_MS)
    await fleet.submit(node)
    await fleet.report(node, *lines(spec, "young"))
    assert await prune_logs(fleet.engine, 14) == 1
    assert await texts(fleet, operation_id) == ["young"]
    assert await prune_logs(fleet.engine, 14) == 0


async def test_OD_31_a_long_log_goes_in_batches(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    from hostler.control.loops import prune

    monkeypatch.setattr(prune, "_BATCH", 3)
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    await fleet.report(node, *lines(spec, *(str(n) for n in range(8))))
    await fleet.submit(node)
    fleet.clock.move(15 * DAY_MS)
    assert await prune_logs(fleet.engine, 14) == 8
    assert await texts(fleet, operation_id) == []
