"""RN-01, RN-07 to RN-09, RN-11: what every container runtime owes: lives and ends, limits, what it sees and leaves."""

import asyncio
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.agent.containers import groups
from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.runtime import State
from hostler.agent.containers.spec import ATTEMPT, PHASE, SETUP_PHASE, TASK, Bind, Limits, name_of
from hostler.base.errors import HostlerError
from support.runtimes import Bed, Gate, answered, has_said, none_called, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]


async def test_RN_01_it_says_which_one_it_is(bed: Bed) -> None:
    assert await bed.runtime.available()
    assert bed.runtime.name in ("containerd", "process", "docker")


async def test_RN_01_a_second_create_finds_the_first(bed: Bed) -> None:
    spec = bed.spec("exit 0")
    first = await bed.runtime.create(spec)
    bed.names.append(first)
    assert (await bed.runtime.status(first)).state is State.CREATED
    assert await bed.runtime.create(spec) == first
    await bed.runtime.start(first)
    await bed.runtime.wait(first)
    assert await bed.runtime.create(spec) == first
    await bed.runtime.start(first)  # one that has ended is not started again
    assert (await bed.runtime.status(first)).ended


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_RN_08_it_ends_with_the_program_s_own_code(bed: Bed, code: int) -> None:
    status = await bed.run(f"exit {code}")
    assert (status.state, status.exit_code, status.signal) == (State.EXITED, code, 0)
    assert 0 < status.started_at_ms <= status.finished_at_ms
    assert abs(status.finished_at_ms / 1000 - time.time()) < 60


async def test_RN_08_a_signal_is_told_from_an_exit(bed: Bed) -> None:
    """The first process of a PID namespace is spared by signals of its own: a child's end stands for it there."""
    status = await bed.run("busybox sh -c 'kill -SEGV $$'; exit $?" if bed.image else "kill -SEGV $$")
    assert (status.state, status.exit_code, status.signal) == (State.KILLED, 128 + signal.SIGSEGV, signal.SIGSEGV)


async def test_RN_08_the_end_of_memory_is_told_from_a_signal(bed: Bed) -> None:
    hungry = "exec /bin/busybox dd if=/dev/zero of=/dev/null bs=200M count=1"
    status = await bed.run(hungry, limits=Limits(memory_bytes=32 << 20))
    assert status.state is State.OOM, status
    assert status.exit_code == 137


async def test_RN_08_it_runs_until_it_has_ended(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    status = await bed.runtime.status(made)
    assert status.state is State.RUNNING
    assert not status.ended
    assert Path(f"/proc/{status.pid}").exists()
    assert status.started_at_ms > 0
    assert status.finished_at_ms == 0


async def test_RN_01_an_end_is_seen_at_once(bed: Bed) -> None:
    """From the runtime's own time of the end to the answer of `wait`; the best of five, for the machine is shared.

    containerd itself takes some 50 ms on two busy cores before it says so.
    """
    waits = []
    for _ in range(5):
        made = await bed.start("sleep 0.2")
        status = await bed.runtime.wait(made)
        waits.append(time.time() * 1000 - status.finished_at_ms)
    assert min(waits) < 400, waits


async def test_RN_01_stats_are_measured(bed: Bed) -> None:
    made = await bed.start("(while :; do :; done) & sleep 60", limits=Limits(memory_bytes=256 << 20))
    await asyncio.sleep(0.5)

    async def busy() -> bool:
        stats = await bed.runtime.stats(made)
        return bool(stats.cpu_nanos > 100_000_000 and stats.memory_bytes > 0 and stats.pids >= 2)

    assert await until(busy)


async def test_RN_01_stop_lets_it_end_by_itself(bed: Bed) -> None:
    made = await bed.start("trap 'exit 42' TERM; echo up; while :; do sleep 0.05; done")
    await has_said(bed, made, "up")
    await bed.runtime.stop(made, 10)
    status = await bed.runtime.wait(made)
    assert (status.state, status.exit_code) == (State.EXITED, 42)
    await bed.runtime.stop(made, 10)


async def test_RN_01_stop_ends_a_tree_that_will_not(bed: Bed) -> None:
    """It ignores SIGTERM, and has forked twice into a session of its own."""
    deaf = "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 16.1803\" &); echo up; while :; do sleep 0.05; done"
    made = await bed.start(deaf)
    await has_said(bed, made, "up")
    begun = time.monotonic()
    await bed.runtime.stop(made, 1)
    assert time.monotonic() - begun < 8
    status = await bed.runtime.wait(made)
    assert (status.state, status.signal) == (State.KILLED, signal.SIGKILL)
    assert await until(lambda: none_called("16.1803"))


async def test_RN_11_remove_is_idempotent_and_leaves_nothing(bed: Bed) -> None:
    spec = bed.spec("sleep 60")
    made = await bed.runtime.create(spec)
    await bed.runtime.start(made)
    await bed.runtime.remove(made)  # a crash may come in any state
    await bed.runtime.remove(made)
    await bed.runtime.stop(made, 1)
    assert await bed.runtime.list({ATTEMPT: spec.labels[ATTEMPT]}) == ()
    with pytest.raises(HostlerError) as gone:
        await bed.runtime.status(made)
    assert gone.value.code == "container_missing"


async def test_RN_11_it_is_found_by_its_labels_in_every_state(bed: Bed, gate: Gate) -> None:
    spec = bed.spec(gate.wait, binds=gate.binds)
    wanted = {TASK: spec.labels[TASK]}
    made = await bed.runtime.create(spec)
    bed.names.append(made)
    states = [(await bed.runtime.list(wanted))[0].state]
    await bed.runtime.start(made)
    states.append((await bed.runtime.list(wanted))[0].state)
    gate.open()
    await bed.runtime.wait(made)
    (found,) = await bed.runtime.list(wanted)
    assert [*states[:2], found.state is State.EXITED] == [State.CREATED, State.RUNNING, True]
    assert (found.id, found.name, dict(found.labels)) == (made, spec.name, spec.labels)
    assert await bed.runtime.list({TASK: "another"}) == ()


async def test_RN_09_limits_stand_in_the_control_group(bed: Bed) -> None:
    limits = Limits(cpu_millis=500, memory_bytes=64 << 20, pids=50)
    made = await bed.start("sleep 60", limits=limits)
    pid = (await bed.runtime.status(made)).pid
    assert _value(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(64 << 20)
    assert _value(pid, "pids", "pids.max", "pids.max") == "50"
    quota, period = _cpu(pid)
    assert quota * 1000 == 500 * period


async def test_RN_09_environment_directory_and_walls_are_as_asked(bed: Bed) -> None:
    show = "echo $GREETING; pwd; id -u; grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status"
    made = await bed.start(show, environment={"GREETING": "good day", "PATH": "/bin"}, working_dir="/tmp", user="1234")
    lines = [line.text for line in await bed.output(made)]
    assert lines[:3] == ["good day", "/tmp", "1234"]
    facts = dict(line.split(":\t") for line in lines[3:])
    assert facts == {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


async def test_RN_09_directories_are_bound_for_reading_or_writing(bed: Bed, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    (tmp_path / "in" / "file").write_text("from the node\n")
    binds = (Bind(str(tmp_path / "in"), "/srv/in"), Bind(str(tmp_path / "out"), "/srv/out", read_only=False))
    script = "cat /srv/in/file; echo x > /srv/in/other || echo refused; echo back > /srv/out/file"
    made = await bed.start(script, binds=binds)
    lines = await bed.output(made)
    assert [line.text for line in lines if line.stream == "stdout"] == ["from the node", "refused"]
    assert (tmp_path / "out" / "file").read_text() == "back\n"


async def test_RN_07_setup_and_command_share_what_an_attempt_has(bed: Bed) -> None:
    main = bed.spec("echo main")
    setup = replace(
        main,
        name=name_of(main.labels[ATTEMPT], SETUP_PHASE),
        labels={**main.labels, PHASE: SETUP_PHASE},
        command=("/bin/busybox", "sh", "-c", "echo setting up; exit 9"),
    )
    first = await bed.runtime.create(setup)
    bed.names.append(first)
    await bed.runtime.start(first)
    assert (await bed.runtime.wait(first)).exit_code == 9
    second = await bed.runtime.create(main)
    bed.names.append(second)
    await bed.runtime.start(second)
    assert (await bed.runtime.wait(second)).exit_code == 0
    assert [[line.text for line in await bed.output(each)] for each in (first, second)] == [["setting up"], ["main"]]
    assert len(await bed.runtime.list({ATTEMPT: main.labels[ATTEMPT]})) == 2


async def test_RN_01_an_image_that_is_not_there_is_named(bed: Bed) -> None:
    if bed.runtime.name == "process":
        return  # it has none
    with pytest.raises(HostlerError) as failed:
        await bed.runtime.create(bed.spec("true", image=f"localhost/none@sha256:{'0' * 64}"))
    assert failed.value.code == "image_missing"
    assert not await bed.runtime.has_image(f"localhost/none@sha256:{'0' * 64}")


async def test_RN_01_a_command_that_is_not_there_fails_and_leaves_nothing_running(bed: Bed) -> None:
    spec = bed.spec("", command=("/no/such/program",))
    made = await bed.runtime.create(spec)
    bed.names.append(made)
    with pytest.raises(HostlerError) as failed:
        await bed.runtime.start(made)
    assert failed.value.code == "container_failed"
    assert (await bed.runtime.status(made)).state is not State.RUNNING


async def test_RN_01_it_and_its_wait_outlast_a_restart_of_the_daemon(bed: Bed, gate: Gate) -> None:
    made = await bed.start(f"{gate.wait}; echo late; exit 6", binds=gate.binds)
    pid = (await bed.runtime.status(made)).pid
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(bed.runtime.wait(made))
        following = group.create_task(bed.output(made))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(bed.restart)
        assert (await until(lambda: answered(bed.runtime.status(made)))).pid == pid
        gate.open()
    assert (waiting.result().state, waiting.result().exit_code) == (State.EXITED, 6)
    assert [line.text for line in following.result()] == ["late"]


async def test_RN_01_a_daemon_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    gone = Containerd(tmp_path / "none.sock", tmp_path, tmp_path)
    with pytest.raises(HostlerError) as failed:
        await gone.available()
    assert failed.value.code == "runtime_unavailable"
    await gone.close()


def _value(pid: int, controller: str, first: str, second: str) -> str:
    group = groups.of_process(pid, controller)
    assert group is not None
    return (group / (second if groups.unified() else first)).read_text().strip()


def _cpu(pid: int) -> tuple[int, int]:
    if groups.unified():
        quota, period = _value(pid, "cpu", "", "cpu.max").split()
        return int(quota), int(period)
    return int(_value(pid, "cpu", "cpu.cfs_quota_us", "")), int(_value(pid, "cpu", "cpu.cfs_period_us", ""))
