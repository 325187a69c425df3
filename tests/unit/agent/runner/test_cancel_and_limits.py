"""A task that is canceled or runs out of time, and what its steps may say (OP-17, OB-07)."""

import asyncio
from pathlib import Path

import pytest

from hostler.agent.runner import limits, step_run
from hostler.agent.steps.contract import StepContext
from hostler.base.errors import error
from hostler.wire.report import StepStatus, TaskStatus
from hostler.wire.task import Policy
from support import fake_kind
from support.agent import core
from support.fake_kind import FakeKind
from support.fake_tasks import THREE, catalog_of, say


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


# -- cancel -----------------------------------------------------------------------------------------


async def test_OP_17_a_cancel_in_mid_step_is_canceled_once_apply_has_returned(tmp_path: Path, fake: FakeKind) -> None:
    ended: list[str] = []

    async def until_cancelled(context: StepContext) -> None:
        await context.cancelled.wait()
        ended.append("process tree gone")
        raise error("canceled", "the command was cancelled")

    fake.on_apply = until_cancelled
    async with core(tmp_path, catalog=THREE) as node:
        async with asyncio.TaskGroup() as group:
            group.create_task(node.run_task())
            while not fake.applied:
                await asyncio.sleep(0)
            node.cancelled.set()
        assert ended
        (task,) = await node.task_reports()
        assert (task.status, task.error_code) == (TaskStatus.CANCELED, "canceled")
        assert (await node.step_reports())[-1].status is StepStatus.CANCELED
        assert fake.applied == ["one"]


async def test_OP_17_a_cancel_before_the_first_step_starts_nothing(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        node.cancelled.set()
        await node.run_task()
        assert fake.planned == []
        assert [task.status for task in await node.task_reports()] == [TaskStatus.CANCELED]


async def test_OP_17_a_cancel_that_comes_between_steps_stops_before_the_next(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        fake.on_apply = lambda _: node.cancelled.set()
        await node.run_task()
        assert fake.applied == ["one"]
        assert [task.status for task in await node.task_reports()] == [TaskStatus.CANCELED]


async def test_OP_17_a_cancel_that_comes_when_all_is_done_leaves_the_success(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        fake.on_apply = lambda _: node.cancelled.set()
        await node.run_task()
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]


async def test_a_kind_that_says_canceled_of_its_own_accord_has_failed(tmp_path: Path, fake: FakeKind) -> None:
    def alone(_: StepContext) -> None:
        raise error("canceled", "somebody else ended it")

    fake.on_apply = alone
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task()
        assert [task.status for task in await node.task_reports()] == [TaskStatus.FAILED]


# -- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "task", "policy", "definition", "seconds"),
    [(50, 0, 0, 7200, 50), (50, 40, 0, 7200, 40), (50, 40, 30, 7200, 30), (50, 0, 0, 20, 20), (0, 0, 0, 10, 10)],
)
async def test_a_step_may_take_the_smallest_of_all_limits(
    tmp_path: Path, fake: FakeKind, step: int, task: int, policy: int, definition: int, seconds: int
) -> None:
    remaining: list[float] = []
    fake.on_apply = lambda context: remaining.append(context.deadline.remaining())
    make = catalog_of(say("one", timeout_seconds=step), timeout_seconds=definition)
    async with core(tmp_path, catalog=make) as node:
        await node.run_task(timeout_seconds=task, policy=Policy(timeout_seconds=policy))
        assert remaining == [seconds]


async def test_a_kind_that_ignores_its_deadline_is_given_up(
    tmp_path: Path, fake: FakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_run, "GRACE_SECONDS", -limits.FOR_EVER)
    fake.on_apply = lambda _: asyncio.sleep(60)
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task()
        (task,) = await node.task_reports()
        assert (task.status, task.error_code) == (TaskStatus.FAILED, "timeout")


# -- what a step says -------------------------------------------------------------------------------


async def test_log_lines_go_out_in_order_before_the_end_of_their_step_and_redacted(
    tmp_path: Path, fake: FakeKind
) -> None:
    def talk(context: StepContext) -> None:
        for number in range(450):
            context.log("stdout", f"line {number} hush")

    fake.on_apply = talk
    make = catalog_of(say("one"))
    async with core(tmp_path, catalog=make, redact=lambda text: text.replace("hush", "***")) as node:
        await node.run_task()
        lines = await node.log_lines()
        assert [line.text for line in lines] == [f"line {number} ***" for number in range(450)]
        assert {line.stream for line in lines} == {"stdout"}
        kinds = [type(body).__name__ for body in await node.outbox()]
        assert kinds == ["StepReport", *["LogLine"] * 450, "StepReport", "TaskReport"]


async def test_OB_07_a_flood_of_log_lines_ends_in_one_line_that_says_so(tmp_path: Path, fake: FakeKind) -> None:
    def flood(context: StepContext) -> None:
        for _ in range(10_050):
            context.log("stdout", "x")
        context.log("stdout", "x" * 100_000)

    fake.on_apply = flood
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        await node.run_task()
        lines = await node.log_lines()
        assert len(lines) == 10_001
        assert (lines[-1].stream, lines[-1].text) == ("agent", "log truncated after 10000 lines")


async def test_a_line_beyond_the_limit_is_cut(tmp_path: Path, fake: FakeKind) -> None:
    fake.on_apply = lambda context: context.log("stderr", "x" * 100_000)
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        await node.run_task()
        (line,) = await node.log_lines()
        assert len(line.text) < 17_000
        assert line.text.endswith("[cut]")


async def test_progress_is_sent_at_most_five_times_a_second_and_its_end_always(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:

        def work(context: StepContext) -> None:
            for done in range(1, 1001):
                context.progress(done, 1000, "bytes")
                node.clock.forward(1)

        fake.on_apply = work
        await node.run_task()
        assert 5 <= len(node.progress) <= 7
        assert (node.progress[-1].done_units, node.progress[-1].total_units) == (1000, 1000)


async def test_a_checkpoint_is_given_back_to_the_step(tmp_path: Path, fake: FakeKind) -> None:
    async def keep(context: StepContext) -> None:
        await context.save_checkpoint({"offset": 7})
        raise error("source_unreachable", "gone")

    fake.on_apply = keep
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        spec = await node.run_task()
        await node.run_task(task_id=spec.task_id, attempt_number=2)
        assert [view.checkpoint for view in fake.views] == [{}, {"offset": 7}]
