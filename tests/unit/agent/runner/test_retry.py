"""RT-03, RT-04: a retry goes on from the first failed step, and only this node's own word counts for that."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.steps.contract import StepContext
from hostler.base.errors import error
from hostler.wire.report import StepReport, StepStatus, TaskStatus
from hostler.wire.task import ReusedStep, TaskSpec
from support import fake_kind
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.fake_tasks import catalog_of, say

MAKE = catalog_of(say("one"), say("fresh", reusable=False), say("three", "${steps.one.word}"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


async def failed_at_three(node: Core, fake: FakeKind) -> tuple[TaskSpec, list[StepReport]]:
    def fail(context: StepContext) -> None:
        if context.step_id == "three":
            raise error("exit_status", "the command ended with 1")

    fake.on_apply = fail
    spec = await node.run_task()
    done = [step for step in await node.step_reports() if step.status is StepStatus.SUCCEEDED]
    fake.on_apply = None
    fake.applied.clear()
    return spec, done


def claims(done: list[StepReport], **changes: Any) -> tuple[ReusedStep, ...]:
    made = (ReusedStep(step.step_id, step.receipt_digest, step.outputs_json) for step in done)
    return tuple(msgspec.structs.replace(claim, **changes) for claim in made)


async def test_RT_03_RT_04_what_stands_is_not_run_again_and_what_may_not_stand_is(
    tmp_path: Path, fake: FakeKind
) -> None:
    async with core(tmp_path, catalog=MAKE) as node:
        spec, done = await failed_at_three(node, fake)
        await node.run_task(task_id=spec.task_id, attempt_number=2, reused=claims(done))
        assert fake.applied == ["fresh", "one"]  # `three` says the word of `one`
        reused = [step for step in await node.step_reports() if step.status is StepStatus.REUSED]
        assert [(step.step_id, step.receipt_digest) for step in reused] == [("one", done[0].receipt_digest)]
        assert (await node.task_reports())[-1].status is TaskStatus.SUCCEEDED
        assert node.chain().length == 5


@pytest.mark.parametrize(
    "lie",
    [{"outputs_json": b'{"word":"evil"}'}, {"receipt_digest": "0" * 64}],
    ids=["another output", "no such receipt"],
)
async def test_SE_08_a_claim_that_the_journal_does_not_bear_out_is_run(
    tmp_path: Path, fake: FakeKind, lie: dict[str, Any]
) -> None:
    async with core(tmp_path, catalog=MAKE) as node:
        spec, done = await failed_at_three(node, fake)
        await node.run_task(task_id=spec.task_id, attempt_number=2, reused=claims(done, **lie))
        assert fake.applied == ["one", "fresh", "one"]


async def test_SE_08_a_result_of_another_task_does_not_count(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=MAKE) as node:
        _, done = await failed_at_three(node, fake)
        await node.run_task(reused=claims(done))
        assert fake.applied == ["one", "fresh", "one"]


async def test_RT_03_a_task_whose_last_step_is_reused_still_ends(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        spec = await node.run_task()
        done = [step for step in await node.step_reports() if step.receipt]
        await node.run_task(task_id=spec.task_id, attempt_number=2, reused=claims(done))
        assert fake.applied == ["one"]
        assert (await node.task_reports())[-1].status is TaskStatus.SUCCEEDED
        assert await node.journal.open_tasks() == []
