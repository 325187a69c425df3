"""K2: after a restart the truth is probed; nothing that is done is run again."""

import asyncio
from pathlib import Path

import pytest

from hostler.agent.runner import faults
from hostler.agent.steps.contract import Outcome, Probe, StepContext, Truth
from hostler.base.errors import HostlerError
from hostler.wire.report import StepStatus, TaskStatus
from support import builders, fake_kind
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.fake_tasks import THREE
from support.keys import Keys


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


class Died(BaseException):
    """Stands for the end of the process: no edge catches it."""


async def die_in(folder: Path, keys: Keys, fake: FakeKind, word: str) -> None:
    """The agent ends in the middle of that step's apply."""

    def end(context: StepContext) -> None:
        if context.params.word == word:
            raise Died

    fake.on_apply = end
    async with core(folder, keys, catalog=THREE) as node:
        with pytest.raises(Died):
            await node.run_task()
    fake.on_apply = None
    fake.applied.clear()
    fake.planned.clear()


async def resume(node: Core) -> None:
    (stored,) = await node.journal.open_tasks()
    await node.runner.resume(stored, node.catalog, node.cancelled)


async def test_K2_done_is_finished_as_recovered_and_not_run_again(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    await die_in(tmp_path, keys, fake, "two")
    fake.truth = Probe(truth=Truth.DONE, outcome=Outcome(outputs={"word": "two"}))
    async with core(tmp_path, keys, catalog=THREE) as node:
        await resume(node)
        assert (fake.probed, fake.applied) == (["two"], ["three"])
        ends = [step for step in await node.step_reports() if step.status is StepStatus.SUCCEEDED]
        assert [(step.step_id, step.recovered) for step in ends] == [("one", False), ("two", True), ("three", False)]
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]
        assert node.chain().ok
        assert node.chain().length == 3


async def test_K2_not_done_is_run(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    await die_in(tmp_path, keys, fake, "two")
    async with core(tmp_path, keys, catalog=THREE) as node:
        await resume(node)
        assert (fake.probed, fake.applied) == (["two"], ["two", "three"])
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]


async def test_K2_ambiguous_is_said_and_nothing_is_run(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    await die_in(tmp_path, keys, fake, "two")
    fake.truth = Probe(truth=Truth.AMBIGUOUS, note="no record was left")
    async with core(tmp_path, keys, catalog=THREE) as node:
        await resume(node)
        assert fake.applied == []
        (task,) = await node.task_reports()
        assert (task.status, task.error_code) == (TaskStatus.FAILED, "interrupted_apply")
        assert "no record was left" in task.error_message
        assert (await node.step_reports())[-1].recovered


async def test_K2_a_step_that_had_failed_is_reported_with_its_code(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    await die_in(tmp_path, keys, fake, "one")
    fake.truth = Probe(truth=Truth.DONE, error_code="exit_status", note="it ended with 3")
    async with core(tmp_path, keys, catalog=THREE) as node:
        await resume(node)
        (task,) = await node.task_reports()
        assert (task.error_code, task.failed_step_id) == ("exit_status", "one")


async def test_an_accepted_task_without_an_intent_runs_from_the_start(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    async with core(tmp_path, keys, catalog=THREE) as node:
        await node.journal.accept(node.judge(builders.envelope(keys, builders.task(keys, node.catalog))))
    async with core(tmp_path, keys, catalog=THREE) as node:
        await resume(node)
        assert (fake.probed, fake.applied) == ([], ["one", "two", "three"])


async def test_an_interrupted_task_goes_on_under_a_catalog_that_has_moved_on(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    await die_in(tmp_path, keys, fake, "two")
    async with core(tmp_path, keys) as node:  # another catalog, without that definition
        await resume(node)
        assert fake.applied == ["two", "three"]
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]


async def test_an_interrupted_task_whose_documents_are_gone_ends_and_says_so(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    await die_in(tmp_path, keys, fake, "two")
    async with core(tmp_path, keys) as node:
        await node.journal._write(lambda db: db.execute("DELETE FROM documents").rowcount)
        (stored,) = await node.journal.open_tasks()
        await node.runner.resume(stored, None, node.cancelled)
        (task,) = await node.task_reports()
        assert (task.status, task.error_code) == (TaskStatus.FAILED, "catalog_mismatch")
        assert await node.journal.open_tasks() == []


async def test_T11_a_task_not_begun_is_verified_again_after_a_restart(tmp_path: Path, fake: FakeKind) -> None:
    keys = Keys()
    async with core(tmp_path, keys, catalog=THREE) as node:
        await node.journal.accept(node.judge(builders.envelope(keys, builders.task(keys, node.catalog))))
    rotated = Keys(root=keys.root, catalog=keys.catalog, node=keys.node, version=2)
    async with core(tmp_path, rotated, catalog=THREE) as node:
        await resume(node)
        assert fake.applied == []
        assert [task.error_code for task in await node.task_reports()] == ["untrusted_key"]


# -- fault points -----------------------------------------------------------------------------------


@pytest.fixture
def disarm() -> object:
    yield
    faults.arm((), enabled=False)


@pytest.mark.parametrize("boundary", faults.BOUNDARIES)
async def test_an_error_at_any_boundary_ends_the_task_once_and_the_chain_stays_whole(
    tmp_path: Path, fake: FakeKind, boundary: str, disarm: None
) -> None:
    faults.arm([f"{boundary}:error:test.fake"], enabled=True)
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task()
        tasks = await node.task_reports()
        assert len(tasks) == 1
        assert tasks[0].error_code == "internal_error"
        assert node.chain().ok
        assert await node.journal.open_tasks() == []
        await node.run_task()
        assert (await node.task_reports())[-1].status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize(
    "points",
    [["nowhere:kill:x"], ["after_intent:explode:x"], ["after_intent:kill"], ["after_intent:kill:"]],
)
def test_a_fault_point_that_does_not_exist_is_refused(points: list[str]) -> None:
    with pytest.raises(HostlerError) as caught:
        faults.arm(points, enabled=True)
    assert caught.value.code == "invalid_config"


def test_fault_points_are_refused_unless_testing_is_enabled() -> None:
    with pytest.raises(HostlerError) as caught:
        faults.arm(["after_intent:kill:*"], enabled=False)
    assert caught.value.code == "invalid_config"
    faults.point("after_intent", "anything")  # still alive


# -- a sick disk ------------------------------------------------------------------------------------


async def test_K4_an_effect_that_could_not_be_written_is_written_when_the_disk_is_well(
    tmp_path: Path, fake: FakeKind
) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        db = node.journal._writer._db
        asked = asyncio.Event()

        def sicken(context: StepContext) -> None:
            if context.params.word == "three":
                db.execute("PRAGMA query_only = ON")
                asked.set()

        fake.on_apply = sicken
        async with asyncio.TaskGroup() as group:
            group.create_task(node.run_task())
            await asked.wait()
            while node.journal.storage == "ok":
                await asyncio.sleep(0.001)
            assert node.journal.storage == "storage_unhealthy"
            db.execute("PRAGMA query_only = OFF")
        assert fake.applied == ["one", "two", "three"]
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]
        assert node.journal.storage == "ok"
