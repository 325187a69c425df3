"""EF-02, EF-06, EF-09, K3: nodes that are lost and come back, over restarts of the control plane, on a real store."""

from pathlib import Path

import pytest
from replay.invariants import broken

from hostler.control.kernel.commands import ControlStarted, ExpireTasks
from hostler.control.store.db import open_reader
from hostler.wire.report import TaskStatus
from hostler.wire.task import CancelSpec, TaskSpec
from support.control import FakeNode, Fleet, task_report
from support.job_fleet import connect, jobs_in, submitted, worker, wrong
from support.jobs import spec
from support.keys import Keys


@pytest.fixture
def keys() -> Keys:
    return Keys()


async def two_workers(fleet: Fleet) -> list[FakeNode]:
    """Of two that are alike the first in order of ids is taken first."""
    made = [await worker(fleet, "w1"), await worker(fleet, "w2")]
    return sorted(made, key=lambda node: node.node_id)


def sound(directory: Path) -> None:
    db = open_reader(directory / "control.db")
    try:
        assert broken(db) == {}
    finally:
        db.close()
    assert wrong(directory) == {}


async def test_EF_06_the_old_attempt_is_cancelled_by_its_own_id_when_its_node_is_back(tmp_path, keys) -> None:
    async with jobs_in(tmp_path, keys=keys) as fleet:
        one, two = await two_workers(fleet)
        job_id = await submitted(fleet, spec(relocatable=True))
        (old,) = await fleet.take(one)
        await fleet.report(one, task_report(old, TaskStatus.RUNNING, at_ms=1))
        await fleet.lose(one)
        fleet.clock.move(60_000)
        await fleet.execute(ExpireTasks())
        (new,) = await fleet.take(two)
        assert isinstance(new, TaskSpec)
        assert (new.task_id, new.attempt_number) == (old.task_id, 2)
        assert new.attempt_uid != old.attempt_uid
        await connect(fleet, one, "s2")
        (order,) = await fleet.delivered(one)
        assert isinstance(order, CancelSpec)
        assert (order.task_id, order.attempt_uid) == (old.task_id, old.attempt_uid)
        await fleet.take(one)
        await fleet.report(one, task_report(old, TaskStatus.CANCELED, error_code="canceled"))
        assert await fleet.delivered(one) == []
        await fleet.run(two, new)
        assert (await fleet.operation(job_id)).status == "succeeded"
    sound(tmp_path)


async def test_EF_06_the_cancel_outlives_a_restart_of_the_control_plane(tmp_path, keys) -> None:
    async with jobs_in(tmp_path, keys=keys) as fleet:
        one, two = await two_workers(fleet)
        await submitted(fleet, spec(relocatable=True))
        (old,) = await fleet.take(one)
        await fleet.lose(one)
        fleet.clock.move(60_000)
        await fleet.execute(ExpireTasks())
        nodes, clock = fleet.nodes, fleet.clock
    async with jobs_in(tmp_path, keys=keys, clock=clock) as fleet:
        fleet.nodes = nodes
        await connect(fleet, two, "s2")
        await connect(fleet, one, "s2")
        (order,) = await fleet.delivered(one)
        assert order.attempt_uid == old.attempt_uid
        assert [each.attempt_number for each in await fleet.delivered(two)] == [2]
    sound(tmp_path)


async def test_EF_02_a_result_from_before_a_restart_lands_on_its_attempt(tmp_path, keys) -> None:
    async with jobs_in(tmp_path, keys=keys) as fleet:
        node = await worker(fleet)
        job_id = await submitted(fleet, spec())
        (taken,) = await fleet.take(node)
        clock = fleet.clock
    async with jobs_in(tmp_path, keys=keys, clock=clock) as fleet:
        await fleet.run(node, taken)  # before its hello, as reports may
        assert (await fleet.operation(job_id)).status == "succeeded"
    sound(tmp_path)


async def test_EF_05_a_restart_of_the_control_plane_moves_nothing(tmp_path, keys) -> None:
    """Every session ends with the process; the grace of a lost node begins then."""
    async with jobs_in(tmp_path, keys=keys) as fleet:
        node, _ = await two_workers(fleet)
        job_id = await submitted(fleet, spec(relocatable=True))
        (taken,) = await fleet.take(node)
        fleet.clock.move(3_600_000)
        await fleet.execute(ControlStarted())
        await fleet.execute(ExpireTasks())
        fleet.clock.move(59_000)
        await connect(fleet, node, "s2")
        await fleet.execute(ExpireTasks())
        await fleet.run(node, taken)
        assert (await fleet.operation(job_id)).status == "succeeded"
    sound(tmp_path)


async def test_EF_09_K3_a_node_without_its_journal_is_sent_the_same_attempt_under_a_new_sequence(
    tmp_path, keys
) -> None:
    async with jobs_in(tmp_path, keys=keys) as fleet:
        node = await worker(fleet)
        job_id = await submitted(fleet, spec())
        (first,) = await fleet.take(node)
        await fleet.report(node, task_report(first, TaskStatus.RUNNING, at_ms=1))
        node.high_sequence, node.open, node.outbox, node.chain = 0, {}, 0, -1
        await connect(fleet, node, "s2")
        (again,) = await fleet.take(node)
        assert (again.task_id, again.attempt_uid) == (first.task_id, first.attempt_uid)
        assert again.sequence > first.sequence
        await fleet.run(node, again)
        assert (await fleet.operation(job_id)).status == "succeeded"
        assert await fleet.events(type_="node.journal_lost")
    sound(tmp_path)
