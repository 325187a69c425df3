"""RN, TE: one task of a job from its signed parameters to its end, over a runtime in memory."""

import asyncio
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.containers import devices, spec
from hostler.agent.containers.runtime import State
from hostler.agent.steps import container_watch
from hostler.wire.report import StepStatus, TaskReport, TaskStatus
from hostler.wire.task import TaskMode
from support import builders
from support.agent import Core
from support.clocks import StillClock
from support.fake_runtime import FakeContainer, FakeRuntime
from support.workloads import Node, until

GPU_NODES = ("nvidia0", "nvidia1", "nvidiactl")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_watch, "_TICK_S", 0.01)
    monkeypatch.setattr(container_watch, "_PAUSE_S", 0.01)


def ends(code: int = 0, *lines: str) -> Callable[[FakeContainer], None]:
    def program(one: FakeContainer) -> None:
        for line in lines:
            one.say(line)
        one.end(code)

    return program


async def ran(node: Core, home: Node, **inputs: Any) -> TaskReport:
    await (await home.start(node, **inputs))
    return (await node.task_reports())[-1]


async def lines_of(node: Core, stream: str, phase: str = "main") -> list[str]:
    return [line.text for line in await node.log_lines() if line.stream == stream and line.phase in ("", phase)]


async def test_SK_24_a_task_runs_to_its_end_and_says_how(tmp_path: Path) -> None:
    runtime = FakeRuntime("process", ends(0, "one", "two"))
    home = Node(tmp_path, runtime)
    async with home.agent() as node:
        report = await ran(node, home, ports=["actor"])
        (end,) = [step for step in await node.step_reports() if step.status is StepStatus.SUCCEEDED]
        assert report.status is TaskStatus.SUCCEEDED
        said = msgspec.json.decode(end.outputs_json)
        assert (said["exit_code"], said["runtime"], said["container"]) == (0, "process", "c1")
        assert set(said["ports"]) == {"actor"}
        assert await lines_of(node, "stdout") == ["one", "two"]
        assert node.chain().ok


async def test_TE_01_TE_09_TE_23_a_task_finds_who_it_is_in_its_environment(tmp_path: Path) -> None:
    runtime = FakeRuntime("process", ends())
    home = Node(tmp_path, runtime)
    async with home.agent() as node:
        task = home.task(node, ports=["actor", "web-ui"], parent="/ann/root", namespace="/ann/root", replicas=3)
        task = builders.changed(task, replica_index=2)
        await node.deliver(builders.envelope(home.keys, task))
        env = runtime.only.spec.environment
        facts = home.workloads.tasks.served[-1]  # type: ignore[attr-defined]
    assert env["HOSTLER_JOB_ID"] == env["IRIS_JOB_ID"] == task.operation_id == facts.job_id
    assert env["HOSTLER_TASK_ID"] == env["IRIS_TASK_ID"] == task.task_id
    assert env["HOSTLER_WORKER_ID"] == env["IRIS_WORKER_ID"] == builders.NODE
    assert env["HOSTLER_VM_ADDRESS"] == env["IRIS_VM_ADDRESS"] == "10.0.0.7"
    assert env["HOSTLER_CONTROLLER_ADDRESS"] == env["IRIS_CONTROLLER_ADDRESS"]
    assert env["HOSTLER_CONTROLLER_ADDRESS"] == "unix:///run/hostler/task.sock"
    assert runtime.only.spec.binds[0].source.endswith(task.attempt_uid)
    assert (env["HOSTLER_TASK_INDEX"], env["HOSTLER_NUM_TASKS"], env["HOSTLER_ATTEMPT"]) == ("2", "3", "1")
    assert (env["HOSTLER_JOB"], env["HOSTLER_PARENT_JOB"], env["HOSTLER_NAMESPACE"]) == (
        "/ann/train", "/ann/root", "/ann/root",
    )  # fmt: skip
    assert int(env["HOSTLER_PORT_ACTOR"]) != int(env["HOSTLER_PORT_WEB_UI"])
    assert facts.ports == {"actor": int(env["HOSTLER_PORT_ACTOR"]), "web-ui": int(env["HOSTLER_PORT_WEB_UI"])}


async def test_OD_05_one_setting_turns_the_aliases_off(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process", ends()), env_aliases=False)
    async with home.agent() as node:
        await ran(node, home)
        assert not [name for name in runtime.only.spec.environment if name.startswith("IRIS_")]


async def test_TE_02_TE_03_names_of_the_house_win_over_the_users(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process", ends()))
    wanted = {"IRIS_TASK_ID": "x", "HOSTLER_CONTROLLER_ADDRESS": "http://evil", "IRIS_MADE_UP": "y", "MINE": "z"}
    async with home.agent() as node:
        await ran(node, home, environment=wanted)
        env = runtime.only.spec.environment
        (warning,) = [line for line in await lines_of(node, "agent") if "warning" in line]
    assert env["IRIS_TASK_ID"] == env["HOSTLER_TASK_ID"] != "x"
    assert env["HOSTLER_CONTROLLER_ADDRESS"].startswith("unix://")
    assert env["MINE"] == "z"
    assert "IRIS_MADE_UP" not in env
    assert all(name in warning for name in wanted if name != "MINE")
    assert "evil" not in warning


@pytest.mark.parametrize(
    ("program", "code", "word"),
    [
        (ends(3), "container_exit", "exit code 3"),
        (lambda one: one.kill(11), "container_killed", "signal 11"),
        (lambda one: one.run_out_of_memory(), "out_of_memory", "memory"),
    ],
)
async def test_RN_08_each_end_has_its_own_word(tmp_path: Path, program: Any, code: str, word: str) -> None:
    home = Node(tmp_path, FakeRuntime("process", program))
    async with home.agent() as node:
        report = await ran(node, home)
    assert (report.status, report.error_code) == (TaskStatus.FAILED, code)
    assert word in report.error_message


async def test_RN_07_setup_runs_before_the_command_with_its_own_streams(tmp_path: Path) -> None:
    def program(one: FakeContainer) -> None:
        one.say(f"in {one.spec.labels[spec.PHASE]}")
        one.end()

    home = Node(tmp_path, runtime := FakeRuntime("process", program))
    async with home.agent() as node:
        assert (await ran(node, home, setup=["prepare"])).status is TaskStatus.SUCCEEDED
        assert await lines_of(node, "stdout", "setup") == ["in setup"]
        assert await lines_of(node, "stdout") == ["in main"]
    setup, main = runtime.made
    assert (setup.spec.command, main.spec.command) == (("prepare",), ("train",))
    assert setup.spec.binds == main.spec.binds, "what the one writes to scratch is there for the other"
    assert setup.spec.ports == {}


async def test_RN_07_a_setup_that_fails_ends_the_task_before_its_command(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process", ends(7, "no compiler")))
    async with home.agent() as node:
        report = await ran(node, home, setup=["prepare"])
        assert (report.error_code, "exit code 7" in report.error_message) == ("setup_failed", True)
        assert await lines_of(node, "stdout", "setup") == ["no compiler"]
    assert [one.spec.command for one in runtime.made] == [("prepare",)]


async def test_OP_17_a_cancel_stops_the_container_and_then_says_so(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        node.cancelled.set()
        await running
        (report,) = await node.task_reports()
    assert (report.status, report.error_code) == (TaskStatus.CANCELED, "canceled")
    assert runtime.only.ended


async def test_a_task_is_stopped_when_its_own_time_is_up(tmp_path: Path) -> None:
    clock = StillClock()
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent(clock=clock) as node:
        running = await home.start(node, timeout_seconds=60)
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        clock.forward(59_000)
        await asyncio.sleep(0.1)
        assert not runtime.only.ended
        clock.forward(1_000)
        await running
        (report,) = await node.task_reports()
    assert (report.error_code, runtime.only.ended) == ("timeout", True)
    assert "60 s" in report.error_message


@pytest.mark.parametrize("fence", ["none", "hard"])
async def test_EF_05_only_a_hard_fence_stops_what_runs_while_the_control_plane_is_silent(
    tmp_path: Path, fence: str
) -> None:
    clock = StillClock()
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent(clock=clock) as node:
        running = await home.start(node, fence=fence, fence_seconds=30)
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        home.heard.silent_s = 29.0
        clock.forward(29_000)
        await asyncio.sleep(0.1)
        assert not runtime.only.ended
        home.heard.silent_s = 1800.0
        clock.forward(1_771_000)
        if fence == "none":
            await asyncio.sleep(0.2)
            assert not runtime.only.ended
            runtime.only.end()
        await until(lambda: runtime.only.ended)
        await running
        (report,) = await node.task_reports()
    assert report.error_code == ("fence_expired" if fence == "hard" else "")


async def test_EF_05_silence_is_counted_across_a_restart_of_the_agent(tmp_path: Path) -> None:
    clock = StillClock()
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent(clock=clock) as node:
        running = await home.start(node, fence="hard", fence_seconds=30)
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        home.heard.silent_s = 20.0
        clock.forward(20_000)
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    home.heard.silent_s = float("inf")  # nobody was heard by the next process
    async with home.agent(clock=clock) as node:
        running = await home.resume(node)
        clock.forward(9_000)
        await asyncio.sleep(0.1)
        assert not runtime.only.ended
        clock.forward(2_000)
        await running
        assert (await node.task_reports())[-1].error_code == "fence_expired"


async def test_the_runtimes_daemon_may_restart_under_a_container(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent() as node:
        running = await home.start(node)
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        runtime.only.say("before")
        runtime.away = True
        runtime.only.say("meanwhile")
        runtime.only.end()
        await asyncio.sleep(0.1)
        assert not running.done()
        runtime.away = False
        await running
        assert (await node.task_reports())[-1].status is TaskStatus.SUCCEEDED
        assert await lines_of(node, "stdout") == ["before", "meanwhile"]


async def test_RN_09_what_is_asked_for_is_what_the_runtime_is_told(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process", ends()))
    for name in GPU_NODES:
        (tmp_path / "root/dev").mkdir(parents=True, exist_ok=True)
        (tmp_path / "root/dev" / name).touch()
    resources = {
        "cpu_millis": 1500, "memory_bytes": 1 << 20, "shm_bytes": 4096, "pids": 7,
        "device": {"kind": "gpu", "count": 1},
    }  # fmt: skip
    async with home.agent() as node:
        await ran(node, home, resources=resources, bundle="a" * 64)
    made = runtime.only.spec
    assert (made.limits.cpu_millis, made.limits.memory_bytes, made.limits.shm_bytes, made.limits.pids) == (
        1500, 1 << 20, 4096, 7,
    )  # fmt: skip
    assert made.devices.nodes == ("/dev/nvidia0", "/dev/nvidiactl")
    assert (made.capabilities, made.no_new_privileges, made.privileged) == ((), True, False)
    assert [bind.target for bind in made.binds] == ["/run/hostler", "/scratch", "/app"]
    assert [bind.read_only for bind in made.binds] == [True, False, True]


async def test_RN_11_what_an_ended_task_leaves_is_cleared_away(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process", ends()))
    async with home.agent() as node:
        await ran(node, home, ports=["actor"], setup=["prepare"])
        scratch = home.workloads.scratch(home_uid(runtime))
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o1777
        assert stat.S_IMODE(scratch.parent.parent.stat().st_mode) == 0o700
        sweeping = asyncio.ensure_future(home.workloads.run())
        await until(lambda: not runtime.containers and not scratch.exists())
        sweeping.cancel()
        assert len(home.workloads.ports.take("next", ["a"])) == 1


def home_uid(runtime: FakeRuntime) -> str:
    return next(iter(runtime.containers.values())).spec.labels[spec.ATTEMPT]


async def test_K8_a_device_that_goes_is_told_and_the_node_is_degraded(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    device = tmp_path / "root/dev/nvidia0"
    device.parent.mkdir(parents=True)
    device.touch()
    async with home.agent() as node:
        running = await home.start(node, resources={"device": {"kind": "gpu", "count": 1}})
        await until(lambda: runtime.containers and runtime.only.state is State.RUNNING)
        device.unlink()
        await until(lambda: home.workloads.lost_devices)
        assert not runtime.only.ended, "it is told, not killed"
        runtime.only.end()
        await running
        assert any("device_lost: /dev/nvidia0" in line for line in await lines_of(node, "agent"))
        await home.workloads.clear(home_uid(runtime))
        assert home.workloads.lost_devices == {}


@pytest.mark.parametrize("ended", [False, True])
async def test_K8_a_process_that_got_the_number_of_an_ended_container_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """It is looked at by its process id, which is another's once it has ended."""
    home = Node(tmp_path, runtime := FakeRuntime("process", lambda one: setattr(one, "pid", 4242)))
    device = tmp_path / "root/dev/nvidia0"
    device.parent.mkdir(parents=True)
    device.touch()
    looked = asyncio.Event()

    def lost(pid: int, nodes: Sequence[str], root: Path) -> dict[str, str]:
        assert pid == 4242
        runtime.only.pid = 0 if ended else pid
        looked.set()
        return dict.fromkeys(nodes, "the container has no such device any more")

    monkeypatch.setattr(devices, "lost", lost)
    async with home.agent() as node:
        running = await home.start(node, resources={"device": {"kind": "gpu", "count": 1}})
        await looked.wait()
        await until(lambda: ended or home.workloads.lost_devices)
        await asyncio.sleep(0.05)
        runtime.only.end()
        await running
        told = [line for line in await lines_of(node, "agent") if "device_lost" in line]
    assert len(told) == (0 if ended else 1)
    assert bool(home.workloads.lost_devices) is not ended


async def test_a_plan_asks_nobody_and_stays_the_same(tmp_path: Path) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    digests = set()
    async with home.agent() as node:
        for _ in range(2):
            task = builders.changed(home.task(node, setup=["prepare"], ports=["a"]), mode=TaskMode.PLAN)
            await node.deliver(builders.envelope(home.keys, task))
            digests.add((await node.task_reports())[-1].plan_digest)
        plan = (await node.step_reports())[-1].plan_json
    assert len(digests) == 1
    assert b"/ann/train in process" in plan
    assert {call for call, _ in runtime.calls} <= {"list"}
