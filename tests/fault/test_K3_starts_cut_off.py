"""K2, K3: a container that its runtime could not start, and of which nothing ran, is made anew in the same attempt."""

import asyncio
from pathlib import Path

import pytest

from hostler.agent.containers import spec
from hostler.agent.containers.runtime import State
from hostler.agent.steps import container_task, container_watch
from hostler.wire.report import StepStatus, TaskStatus
from support.agent import Core
from support.fake_runtime import FakeContainer, FakeRuntime
from support.workloads import Node, stop_agent, until

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_watch, "_TICK_S", 0.01)
    monkeypatch.setattr(container_watch, "_PAUSE_S", 0.01)


def failing(times: int, phase: str = spec.MAIN_PHASE) -> FakeRuntime:
    """So many starts of that phase come to nothing; every other container does its work."""
    left = times

    def program(one: FakeContainer) -> None:
        nonlocal left
        if left and one.spec.labels[spec.PHASE] == phase:
            left -= 1
            one.never_begin()
            return
        one.say(f"{one.spec.labels[spec.PHASE]} done")
        one.end()

    return FakeRuntime("process", program)


async def ended(node: Core) -> tuple[TaskStatus, str]:
    (report,) = await node.task_reports()
    return report.status, report.error_code


@pytest.mark.parametrize("phase", [spec.SETUP_PHASE, spec.MAIN_PHASE])
@pytest.mark.parametrize("times", [1, container_task.STARTS - 1])
async def test_K3_a_start_that_came_to_nothing_is_made_good_within_the_attempt(
    tmp_path: Path, phase: str, times: int
) -> None:
    home = Node(tmp_path, runtime := failing(times, phase))
    async with home.agent() as node:
        await (await home.start(node, setup=["prepare"]))
        assert await ended(node) == (TaskStatus.SUCCEEDED, "")
        steps = [step for step in await node.step_reports() if step.status is StepStatus.SUCCEEDED]
        assert len(steps) == 1
        assert node.chain().ok
        said = [line.text for line in await node.log_lines() if line.stream == "stdout"]
        assert said == ["setup done", "main done"]
    done = [made.spec.labels[spec.PHASE] for made in runtime.made if made.starts]
    assert done == [spec.SETUP_PHASE, spec.MAIN_PHASE]
    assert len({made.spec.labels[spec.ATTEMPT] for made in runtime.made}) == 1
    assert len(runtime.made) == 2 + times


async def test_K3_a_node_that_can_start_nothing_gives_the_task_back(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := failing(1000))
    async with home.agent() as node:
        await (await home.start(node))
        assert await ended(node) == (TaskStatus.FAILED, "container_unstarted")
    assert len(runtime.made) == container_task.STARTS
    assert [made.starts for made in runtime.made] == [0] * container_task.STARTS


async def test_K3_the_next_agent_makes_anew_what_was_left_unstarted(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        await stop_agent(running)
    runtime.only.never_begin()
    runtime.program = lambda one: one.end()
    async with home.agent() as node:
        await (await home.resume(node))
        assert await ended(node) == (TaskStatus.SUCCEEDED, "")
    assert [made.starts for made in runtime.made] == [0, 1]


async def test_K3_what_was_cancelled_meanwhile_is_not_begun_again(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:

        def cancelled(one: FakeContainer) -> None:
            node.cancelled.set()
            one.never_begin()

        runtime.program = cancelled
        async with asyncio.timeout(10):
            await (await home.start(node))
        assert await ended(node) == (TaskStatus.CANCELED, "canceled")
    assert sum(made.starts for made in runtime.made) == 0
