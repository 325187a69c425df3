"""Planning touches nothing, and what was approved is what runs (design §5: `plan_drift`)."""

from pathlib import Path

import msgspec
import pytest

from hostler.wire.report import StepStatus, TaskStatus
from hostler.wire.task import TaskMode
from support import fake_kind
from support.agent import core
from support.fake_kind import FakeKind
from support.fake_tasks import THREE, catalog_of, say


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


async def test_a_plan_reports_every_step_and_applies_none(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task(mode=TaskMode.PLAN)
        assert fake.applied == []
        steps = await node.step_reports()
        assert [(step.step_id, step.status) for step in steps] == [
            ("one", StepStatus.PLANNED),
            ("two", StepStatus.PLANNED),
            ("three", StepStatus.PLANNED),
        ]
        assert msgspec.json.decode(steps[0].plan_json)["changes"][0]["target"] == "one"
        (task,) = await node.task_reports()
        assert task.status is TaskStatus.PLANNED
        assert len(task.plan_digest) == 64
        assert node.journal.receipts() == []
        assert await node.journal.open_tasks() == []


async def test_a_step_that_waits_for_an_output_is_deferred(tmp_path: Path, fake: FakeKind) -> None:
    make = catalog_of(say("one"), say("two", "${steps.one.word}"), say("three"))
    async with core(tmp_path, catalog=make) as node:
        await node.run_task(mode=TaskMode.PLAN)
        changes = [msgspec.json.decode(step.plan_json)["changes"][0] for step in await node.step_reports()]
        assert [change["action"] for change in changes] == ["say", "deferred", "say"]
        assert "one" in changes[1]["detail"]


async def test_the_approved_plan_runs_and_is_planned_no_second_time(tmp_path: Path, fake: FakeKind) -> None:
    make = catalog_of(say("one"), say("two", "${steps.one.word}"))
    async with core(tmp_path, catalog=make) as node:
        await node.run_task(mode=TaskMode.PLAN)
        (planned,) = await node.task_reports()
        fake.planned.clear()
        await node.run_task(approved_plan_digest=planned.plan_digest)
        assert fake.applied == ["one", "one"]
        assert fake.planned == ["one", "one"]  # each once: the first for the approval, the deferred in its turn


async def test_a_plan_that_drifted_is_not_applied_at_all(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task(mode=TaskMode.PLAN)
        (planned,) = await node.task_reports()
        fake.plan_detail = "another diff"
        await node.run_task(approved_plan_digest=planned.plan_digest)
        assert fake.applied == []
        task = (await node.task_reports())[-1]
        assert (task.status, task.error_code) == (TaskStatus.FAILED, "plan_drift")
