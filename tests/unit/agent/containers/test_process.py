"""The process runtime, as whoever runs the tests: what holds for root and for nobody in particular."""

import asyncio
import dataclasses
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers import process_spec, shim_log
from hostler.agent.containers.cri_logs import LogReader
from hostler.agent.containers.process import Process
from hostler.agent.containers.process_link import Link
from hostler.agent.containers.process_spec import End, Started
from hostler.agent.containers.runtime import PullAuth, Size, State, Terminal
from hostler.agent.containers.spec import Bind, ContainerSpec, Limits
from hostler.agent.host.users import User
from hostler.base.errors import HostlerError

SPEC = ContainerSpec(
    name="t1-main",
    image="",
    command=("/bin/sh", "-c", "exit 0"),
    environment={"PATH": "/usr/bin:/bin", "SOCKET": "unix:///run/hostler/task.sock", "OTHER": "/apple"},
    labels={"hostler.task": "t1"},
    limits=Limits(cpu_millis=1, memory_bytes=2, pids=3),
    binds=(Bind("/var/x", "/run/hostler"), Bind("/var/app", "/app")),
    working_dir="/app/sub",
    log_bytes=1000,
)
SIZE = Size(31, 97)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Process]:
    made = Process(tmp_path / ("long" * 30) / "processes")  # longer than a socket's name may be
    yield made
    for found in await made.list({}):
        await made.remove(found.id)
    await made.close()


async def started(runtime: Process, script: str, **changed: Any) -> str:
    spec = ContainerSpec(
        name=f"t-{os.urandom(4).hex()}", image="", command=("/bin/sh", "-c", script), environment=SPEC.environment,
        labels=SPEC.labels,
    )  # fmt: skip
    made = await runtime.create(dataclasses.replace(spec, **changed))
    await runtime.start(made)
    return made


async def all_of(terminal: Terminal) -> bytes:
    """The kernel may hand on a line and its end one after the other."""
    said = b""
    while data := await terminal.read():
        said += data
    return said


async def test_it_runs_and_ends_with_its_code_and_its_output(runtime: Process) -> None:
    made = await started(runtime, "echo one; echo two >&2; printf three; exit 5")
    status = await runtime.wait(made)
    assert (status.state, status.exit_code) == (State.EXITED, 5)
    lines = [line async for line in runtime.logs(made)]
    assert sorted((line.stream, line.text, line.whole) for line in lines) == [
        ("stderr", "two", True), ("stdout", "one", True), ("stdout", "three", False),
    ]  # fmt: skip
    async with asyncio.timeout(5):
        while runtime.pids():  # its supervisor is collected
            await asyncio.sleep(0.01)


async def test_it_is_stopped_and_found_and_removed(runtime: Process) -> None:
    made = await started(runtime, "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done")
    async for line in runtime.logs(made, follow=True):
        assert line.text == "up"
        break
    assert [found.state for found in await runtime.list(SPEC.labels)] == [State.RUNNING]
    assert (await runtime.stats(made)).pids >= 1
    await runtime.stop(made, 5)
    assert (await runtime.wait(made)).exit_code == 9
    await runtime.remove(made)
    await runtime.remove(made)
    assert await runtime.list({}) == ()


async def test_a_signal_is_told(runtime: Process) -> None:
    status = await runtime.wait(await started(runtime, "kill -USR1 $$"))
    assert (status.state, status.signal, status.exit_code) == (State.KILLED, signal.SIGUSR1, 128 + signal.SIGUSR1)


async def test_a_program_is_run_in_it_and_a_terminal_opened(runtime: Process) -> None:
    made = await started(runtime, "sleep 60")
    done = await runtime.exec(made, ("/bin/sh", "-c", "echo out; echo err >&2; exit 3"), 10)
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    terminal = await runtime.attach(made, ("/bin/sh", "-c", "test -t 0 && echo tty; read x; exit 4"), tty=SIZE)
    assert b"tty" in await terminal.read()
    await terminal.write(b"go\n")
    async with asyncio.timeout(10):
        assert await terminal.wait() == 4
    await terminal.close()
    with pytest.raises(HostlerError) as failed:
        await runtime.attach(made, ("/no/such/program",), tty=None)
    assert failed.value.code == "container_failed"


async def test_API_26_a_program_finds_the_size_of_its_terminal_at_its_first_look(runtime: Process) -> None:
    made = await started(runtime, "sleep 60")
    for _ in range(5):
        terminal = await runtime.attach(made, ("stty", "size"), tty=SIZE)
        assert await all_of(terminal) == b"31 97\r\n"
        await terminal.close()


async def test_API_26_a_supervisor_that_knows_no_size_has_its_terminal_resized(
    runtime: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It outlives upgrades of the agent, and passes over what an order did not say in its version."""
    made, ordered = await started(runtime, "sleep 60"), Link.order

    async def older(link: Link, words: dict[str, Any]) -> None:
        await ordered(link, {name: word for name, word in words.items() if name != "size"})

    monkeypatch.setattr(Link, "order", older)
    terminal = await runtime.attach(made, ("/bin/sh", "-c", "read x; stty size"), tty=SIZE)
    await terminal.write(b"x\n")
    assert (await all_of(terminal)).endswith(b"31 97\r\n")
    await terminal.close()


async def test_it_has_no_images(runtime: Process) -> None:
    with pytest.raises(HostlerError) as failed:
        await runtime.pull("x@sha256:0", PullAuth(username="", password=bytes))
    assert failed.value.code == "container_failed"
    with pytest.raises(HostlerError) as missing:
        await runtime.create(dataclasses.replace(SPEC, image="x"))
    assert missing.value.code == "image_missing"
    assert await runtime.has_image("")
    assert not await runtime.has_image("x")


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "x" * 200])
async def test_a_name_is_one_plain_directory(runtime: Process, name: str) -> None:
    with pytest.raises(HostlerError) as failed:
        await runtime.create(dataclasses.replace(SPEC, name=name))
    assert failed.value.code == "container_failed"
    runtime._state.mkdir(parents=True)
    (runtime._state.parent / "up").mkdir()
    with pytest.raises(HostlerError) as missing:
        await runtime.status(name)
    assert missing.value.code == "container_missing"
    await runtime.remove(name)
    assert (runtime._state.parent / "up").exists()


USER = User("app", 7, 8, (9,))


def test_RN_09_every_field_reaches_the_supervisor() -> None:
    made = process_spec.order(SPEC, USER, root=True)
    assert made == process_spec.Order(
        command=SPEC.command,
        environment=SPEC.environment,
        labels=SPEC.labels,
        working_dir="/app/sub",
        ids=(7, 8, (9,)),
        no_new_privileges=True,
        binds=SPEC.binds,
        limits=SPEC.limits,
        log_bytes=1000,
    )


def test_TE_04_without_root_paths_inside_become_those_they_stand_for() -> None:
    made = process_spec.order(SPEC, None, root=False)
    assert made.environment == {
        "PATH": "/usr/bin:/bin", "SOCKET": "unix:///var/x/task.sock", "OTHER": "/apple",
    }  # fmt: skip
    assert (made.working_dir, made.binds, made.ids) == ("/var/app/sub", (), None)


@pytest.mark.parametrize("field", [{"privileged": True}, {"capabilities": ("CHOWN",)}, {"read_only_root": True}])
def test_what_a_process_cannot_have_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(HostlerError) as refused:
        process_spec.order(dataclasses.replace(SPEC, **field), USER, root=True)
    assert refused.value.code == "container_failed"


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (End(0, 0, False, "", 9), State.EXITED),
        (End(137, 9, False, "", 9), State.KILLED),
        (End(137, 9, True, "OOMKilled", 9), State.OOM),
        (End(1, 0, True, "OOMKilled", 9), State.OOM),
    ],
)
def test_RN_08_ends_are_told_apart(end: End, state: State) -> None:
    status = process_spec.ended(Started(5, 3), end)
    assert (status.state, status.exit_code, status.started_at_ms, status.finished_at_ms) == (state, end.code, 3, 9)
    assert process_spec.ended(None, end).started_at_ms == 9
    assert process_spec.running(None).state is State.RUNNING


def test_OB_07_what_is_written_in_any_pieces_is_read_as_lines(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    log = shim_log.Log(directory, 10_000_000)
    said = b"one\n\n" + b"x" * 50_000 + b"\nlast"
    for start in range(0, len(said), 777):
        log.write("stdout", said[start : start + 777])
    log.close()
    os.close(directory)
    reader, found = LogReader(tmp_path / "task.log"), []
    while read := reader.read():
        found += read
    found += reader.finish()
    reader.close()
    assert [(line.text, line.whole) for line in found] == [
        ("one", True), ("", True), ("x" * 50_000, True), ("last", False),
    ]  # fmt: skip


def test_OB_07_two_files_of_half_the_size_are_kept(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    log = shim_log.Log(directory, 4000)
    for number in range(200):
        log.write("stdout", f"line {number}\n".encode())
    log.close()
    os.close(directory)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["task.log", "task.log.1"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    assert (tmp_path / "task.log").read_text().endswith("line 199\n")


async def test_J3_what_cannot_be_an_argument_is_said_and_nothing_goes_on(runtime: Process) -> None:
    with pytest.raises(HostlerError) as refused:
        await started(runtime, "true", command=("/bin/sh", "a\0b"))
    assert refused.value.code == "container_failed"
    assert "null byte" in refused.value.message
