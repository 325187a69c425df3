"""TE-20, K2, K3, EF-09: an agent that stops, dies or forgets finds its containers again, and starts nothing twice."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.admission.verdict import Admitted
from hostler.agent.containers import spec
from hostler.agent.containers.runtime import State
from hostler.agent.journal.rows import TaskKey
from hostler.agent.runner import faults
from hostler.agent.steps import container_watch
from hostler.wire.codec_task import decode_task
from hostler.wire.report import StepStatus, TaskStatus
from support import builders
from support.agent import Core
from support.fake_runtime import FakeContainer, FakeRuntime
from support.workloads import Node, stop_agent, until

NOTHING_LOST = [f"line {number}" for number in range(300)]


pytestmark = pytest.mark.timeout(30)  # what is not stopped runs for ever


class Died(BaseException):
    """Stands for the end of the process: no edge catches it."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_watch, "_TICK_S", 0.01)
    monkeypatch.setattr(container_watch, "_PAUSE_S", 0.01)


async def running_container(runtime: FakeRuntime) -> FakeContainer:
    await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
    return runtime.only


async def stdout(node: Core, phase: str = spec.MAIN_PHASE) -> list[str]:
    return [line.text for line in await node.log_lines() if (line.stream, line.phase) == ("stdout", phase)]


async def ended(node: Core) -> tuple[TaskStatus, str]:
    report = (await node.task_reports())[-1]
    return report.status, report.error_code


async def test_TE_20_a_stopped_agent_says_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    told: list[str] = []
    async with home.agent() as node:
        running = await home.start(node, ports=["actor"])
        one = await running_container(runtime)
        for line in NOTHING_LOST[:100]:
            one.say(line)
        await until(lambda: node.journal.checkpoint(key(home), "run/log/main"))
        await stop_agent(running)
        assert await node.task_reports() == []
        assert one.state is State.RUNNING
        assert runtime.did("stop") == []
    for line in NOTHING_LOST[100:200]:
        one.say(line)
    async with home.agent() as node:
        running = await home.resume(node)
        for line in NOTHING_LOST[200:]:
            one.say(line)
        one.end()
        await running
        told = await stdout(node)
        assert await ended(node) == (TaskStatus.SUCCEEDED, "")
        assert node.chain().ok
    assert told == NOTHING_LOST, "each line once, in order"
    assert [made.starts for made in runtime.made] == [1]


def key(home: Node) -> TaskKey:
    return TaskKey(decode_task(home.sent[-1].payload).task_id, 1)


@pytest.mark.parametrize("stops", range(1, 8))
async def test_TE_20_no_line_is_lost_or_told_twice_whenever_the_agent_dies(tmp_path: Path, stops: int) -> None:
    """It dies `stops` times while the task talks on, with whatever was on its way to the disk."""
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    said = 0
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
    for round_ in range(stops):
        async with home.agent() as node:
            running = await home.resume(node)
            for _ in range(37):
                one.say(NOTHING_LOST[said])
                said += 1
                await asyncio.sleep(0)
            await asyncio.sleep(0.02 * (round_ % 4))
            await stop_agent(running)
    async with home.agent() as node:
        running = await home.resume(node)
        one.end()
        await running
        assert await stdout(node) == NOTHING_LOST[:said]
        assert [made.starts for made in runtime.made] == [1]


async def test_K2_a_container_that_ended_meanwhile_is_reported_and_not_run_again(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
    one.say("last words")
    one.end(9)
    async with home.agent() as node:
        await (await home.resume(node))
        assert await ended(node) == (TaskStatus.FAILED, "container_exit")
        assert await stdout(node) == ["last words"]
    assert [made.starts for made in runtime.made] == [1]


# inside the journal's transaction a process that ends is another process's to see: the K1 matrix kills one there
@pytest.mark.parametrize("boundary", [each for each in faults.BOUNDARIES if each != "after_receipt"])
async def test_K1_killed_at_a_boundary_it_runs_once_and_ends_once(
    tmp_path: Path, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(at: str, kind: str) -> None:
        if at == boundary:
            raise Died

    def program(one: FakeContainer) -> None:
        one.say("done")
        one.end()

    home = Node(tmp_path, runtime := FakeRuntime("process", program))
    monkeypatch.setattr(faults, "_hook", die)
    async with home.agent() as node:
        with pytest.raises(BaseException):  # noqa: B017 - wherever it surfaces
            await (await home.start(node))
    monkeypatch.setattr(faults, "_hook", None)
    async with home.agent() as node:
        if await node.journal.open_tasks():
            await (await home.resume(node))
        reports = [report for report in await node.task_reports() if report.status is TaskStatus.SUCCEEDED]
        ends = [step for step in await node.step_reports() if step.status is StepStatus.SUCCEEDED]
        assert (len(reports), len(ends)) == (1, 1)
        assert await stdout(node) == ["done"]
        assert not ends[0].recovered, "its container tells its end again, until that is on disk"
    assert [made.starts for made in runtime.made] == [1]


MAKING = {
    "before create": "create",
    "before start": "start",
    "while it is watched": "wait",
}


@pytest.mark.parametrize("call", MAKING.values(), ids=list(MAKING))
@pytest.mark.parametrize("phase", [spec.SETUP_PHASE, spec.MAIN_PHASE])
@pytest.mark.parametrize("late", [False, True], ids=["before the call", "after it"])
async def test_TE_20_killed_around_each_call_nothing_is_made_or_started_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, phase: str, late: bool
) -> None:
    """`late`: the runtime did it, and the answer did not come back."""

    def program(one: FakeContainer) -> None:
        one.say("done")
        one.end()

    home = Node(tmp_path, runtime := FakeRuntime("process", program))
    died = False
    real = getattr(runtime, call)

    @functools.wraps(real)
    async def dies(what: Any) -> Any:
        nonlocal died
        name = what.name if call == "create" else runtime.containers[what].spec.name
        if died or name.endswith("-setup") != (phase == spec.SETUP_PHASE):
            return await real(what)
        died = True
        if late:
            await real(what)
        raise Died

    monkeypatch.setattr(runtime, call, dies)
    async with home.agent() as node:
        with pytest.raises(BaseException):  # noqa: B017 - wherever it surfaces
            await (await home.start(node, setup=["prepare"]))
        assert died
    async with home.agent() as node:
        await (await home.resume(node))
        assert await ended(node) == (TaskStatus.SUCCEEDED, "")
        assert (await stdout(node), await stdout(node, spec.SETUP_PHASE)) == (["done"], ["done"])
    assert [(made.spec.command, made.starts) for made in runtime.made] == [(("prepare",), 1), (("train",), 1)]


async def test_K3_EF_09_with_the_journal_gone_the_same_attempt_is_adopted_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node, ports=["actor"])
        one = await running_container(runtime)
        ports = dict(one.spec.ports)
        await stop_agent(running)
    async with home.agent(forgotten=True) as node:
        assert await node.journal.open_tasks() == []
        await home.workloads.sweep()  # the control plane has not spoken yet
        assert one.state is State.RUNNING
        assert home.workloads.ports.take("other", ["a"])["a"] != ports["actor"], "held before anything new is placed"
        running = asyncio.ensure_future(node.deliver(again(home, node)))
        await until(lambda: "wait" in dict(runtime.calls[-20:]))
        one.end()
        await running
        assert await ended(node) == (TaskStatus.SUCCEEDED, "")
    assert [made.starts for made in runtime.made] == [1]


def again(home: Node, node: Core) -> Any:
    """The same attempt in a new envelope, as the control plane signs it for a node that forgot."""
    task = decode_task(home.sent[-1].payload)
    fresh = builders.task(
        home.keys, node.catalog, inputs={"job": "/ann/train", "command": ["train"], "ports": ["actor"]}
    )
    same = {name: getattr(task, name) for name in ("task_id", "operation_id", "attempt_uid", "attempt_number")}
    sent = builders.envelope(home.keys, builders.changed(fresh, **same))
    assert isinstance(node.judge(sent), Admitted)
    return sent


async def test_K3_what_ended_while_the_journal_was_lost_is_reported_and_not_run_again(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
    one.end(4)
    async with home.agent(forgotten=True) as node:
        await node.deliver(again(home, node))
        assert await ended(node) == (TaskStatus.FAILED, "container_exit")
    assert [made.starts for made in runtime.made] == [1]


async def test_K3_a_container_that_says_it_is_another_tasks_is_not_taken_up(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
    one.spec.labels[spec.PROJECT] = "other"
    async with home.agent() as node:
        await (await home.resume(node))
        assert await ended(node) == (TaskStatus.FAILED, "container_denied")
        assert one.state is State.RUNNING, "it is somebody else's"


async def test_a_cancel_that_came_while_the_agent_was_down_stops_the_container_first(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
    async with home.agent() as node:
        node.cancelled.set()
        await (await home.resume(node))
        assert await ended(node) == (TaskStatus.CANCELED, "canceled")
    assert one.ended
    assert [made.starts for made in runtime.made] == [1]


async def test_a_runtime_that_is_away_at_the_start_of_the_agent_ends_nothing(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
    runtime.away = True
    async with home.agent() as node:
        running = await home.resume(node)
        await asyncio.sleep(0.1)
        assert not running.done()
        runtime.away = False
        one.end()
        await running
        assert await ended(node) == (TaskStatus.SUCCEEDED, "")
    assert [made.starts for made in runtime.made] == [1]


@pytest.mark.parametrize(
    ("there_s", "known", "stopped"),
    [
        (0.0, False, False),  # silent: nothing is stopped, for however long
        (119.0, False, False),
        (120.0, False, True),
        (0.0, True, True),  # the journal itself says that the attempt has ended
    ],
)
async def test_K3_orphans_are_stopped_only_when_it_is_sure_that_nobody_wants_them(
    tmp_path: Path, there_s: float, known: bool, stopped: bool
) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        await stop_agent(running)
        if known:
            node.cancelled.set()
            await (await home.resume(node))
            one.state = State.RUNNING  # as if its removal had not been reached
    async with home.agent(forgotten=not known) as node:
        home.heard.there_s = there_s
        await home.workloads.sweep()
        assert (not runtime.containers) == stopped
        await node.journal.check()  # a write that comes after theirs
        lines = [line.text for line in await node.log_lines() if "belonged to no open task" in line.text]
        assert len(lines) == stopped


async def test_K3_what_is_open_is_no_orphan_however_long_the_control_plane_is_there(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        one = await running_container(runtime)
        home.heard.there_s = 100_000.0
        await home.workloads.sweep()
        assert one.state is State.RUNNING
        one.end()
        await running


async def test_TE_21_ports_of_what_runs_are_held_before_anything_new_is_placed(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"), port_range=(24_100, 24_101))
    async with home.agent() as node:
        running = await home.start(node, ports=["actor"])
        one = await running_container(runtime)
        await stop_agent(running)
    async with home.agent() as node:
        first = await home.resume(node)
        second = await home.start(node, ports=["actor"])
        await until(lambda: len(runtime.containers) == 2)
        taken = [made.spec.ports["actor"] for made in runtime.made]
        assert len(set(taken)) == 2
        third = await home.start(node, ports=["actor"])
        await third
        assert await ended(node) == (TaskStatus.FAILED, "ports_exhausted")
        for made in runtime.made:
            made.end()
        await asyncio.gather(first, second)
    assert one.spec.labels[spec.PORTS] == f'{{"actor":{taken[0]}}}'
