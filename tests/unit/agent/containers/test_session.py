"""X1 on the node: a session's window, its silence, and that its program never outlives it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from hostler.agent.containers import find
from hostler.agent.containers import session as module
from hostler.agent.containers.runtime import Size
from hostler.agent.containers.session import Session
from hostler.agent.containers.transcript import LONGEST, Transcript
from hostler.base.errors import HostlerError, error
from hostler.wire.relay import (
    STDIN,
    WINDOW,
    RelayBeat,
    RelayData,
    RelayEnd,
    RelayFrame,
    RelayResize,
    RelayWindow,
)
from support.fake_terminal import FakeRuntime, FakeTerminal, FakeWorkloads
from support.workloads import until


class Wire:
    """Both ends of a relay in the test's hands."""

    def __init__(self) -> None:
        self.down: asyncio.Queue[RelayFrame | HostlerError] = asyncio.Queue()
        self.up: list[RelayFrame] = []

    async def receive(self) -> RelayFrame:
        frame = await self.down.get()
        if isinstance(frame, HostlerError):
            raise frame
        return frame

    async def send(self, frame: RelayFrame) -> None:
        self.up.append(frame)

    def said(self) -> bytes:
        return b"".join(frame.data for frame in self.up if isinstance(frame, RelayData))


class Run:
    """One session under way, with somebody who beats at the other end."""

    def __init__(self, *command: str, tty: bool = False) -> None:
        self.wire = Wire()
        self.recorded = b""
        self.terminal: FakeTerminal | None = None
        self.stop = asyncio.Event()
        self._command, self._tty = command, tty
        self.session = Session(self.wire, self._record, tty=tty)

    def _record(self, data: bytes) -> None:
        self.recorded += data

    async def start(self) -> FakeTerminal:
        self.terminal = FakeTerminal(self._command, tty=Size(24, 80) if self._tty else None)
        return self.terminal

    async def ended(self) -> None:
        await self.stop.wait()
        raise error("canceled", "the session was cancelled")

    async def run(self) -> module.Facts:
        return await self.session.run(self.start, self.ended)

    def dead(self) -> bool:
        assert self.terminal is not None
        return self.terminal.process.poll() is not None


@contextlib.asynccontextmanager
async def beating(wire: Wire) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            wire.down.put_nowait(RelayBeat())
            await asyncio.sleep(0.2)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def test_API_26_bytes_go_both_ways_and_the_end_is_told() -> None:
    run = Run("sh", "-c", "read line; echo got $line; exit 5")
    for frame in (RelayWindow(WINDOW), RelayData(STDIN, b"word\n")):
        run.wire.down.put_nowait(frame)

    run.session._granted = 5  # as if it had been granted before
    async with beating(run.wire):
        facts = await run.run()
    assert (facts.exit_code, facts.bytes_in, run.wire.said(), run.recorded) == (5, 5, b"got word\n", b"got word\n")
    assert run.wire.up[-1] == RelayEnd(exit_code=5)


async def test_X1_nothing_is_read_that_nobody_has_room_for() -> None:
    run = Run("sh", "-c", "head -c 10000000 /dev/zero")
    run.wire.down.put_nowait(RelayWindow(1000))
    async with beating(run.wire):
        running = asyncio.create_task(run.run())
        await until(lambda: run.wire.said())
        await asyncio.sleep(0.2)
        assert run.wire.said() == bytes(1000)
        assert not run.dead()
        run.wire.down.put_nowait(RelayWindow(500))
        await until(lambda: len(run.wire.said()) > 1000)
        await asyncio.sleep(0.2)
        assert len(run.wire.said()) == 1500
        run.stop.set()
        with pytest.raises(HostlerError, match="cancelled"):
            await running
    assert run.dead()


async def test_X1_input_beyond_the_window_ends_the_session() -> None:
    run = Run("sleep", "60")
    run.wire.down.put_nowait(RelayWindow(WINDOW))
    for _ in range(WINDOW // 32_768 + 1):
        run.wire.down.put_nowait(RelayData(STDIN, b"x" * 32_768))
    with pytest.raises(HostlerError, match="more input came"):
        await run.run()
    assert run.dead()


async def test_X1_a_silent_control_plane_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.3)
    run = Run("sleep", "60")
    run.wire.down.put_nowait(RelayWindow(WINDOW))
    with pytest.raises(HostlerError, match="nothing was heard") as refused:
        async with asyncio.timeout(5):
            await run.run()
    assert refused.value.code == "relay_closed"
    assert run.dead()


async def test_X1_a_relay_that_breaks_ends_the_program() -> None:
    run = Run("sh", "-c", "sleep 60 & sleep 60")
    run.wire.down.put_nowait(RelayWindow(WINDOW))
    running = asyncio.create_task(run.run())
    while run.terminal is None:
        await asyncio.sleep(0.01)
    run.wire.down.put_nowait(error("controller_unreachable", "the network process has ended"))
    with pytest.raises(HostlerError) as refused:
        await running
    assert refused.value.code == "relay_closed"
    assert run.dead()


async def test_X1_nothing_starts_before_somebody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_S", 0.2)
    run = Run("sleep", "60")
    with pytest.raises(HostlerError) as refused:
        async with asyncio.timeout(5):
            await run.run()
    assert refused.value.code == "relay_expired"
    assert run.terminal is None


async def test_API_26_sizes_reach_a_terminal() -> None:
    run = Run("sh", "-c", 'until stty size | grep -qx "33 44"; do sleep 0.02; done; echo drawn', tty=True)
    run.wire.down.put_nowait(RelayResize(33, 44))
    run.wire.down.put_nowait(RelayWindow(WINDOW))
    async with beating(run.wire):
        await asyncio.wait_for(run.run(), 10)
    assert b"drawn" in run.wire.said()


async def test_S2_a_container_of_another_tenant_is_not_found() -> None:
    workloads = FakeWorkloads(FakeRuntime(tenant=("acme", "train")))
    asked = {"task_id": "t", "attempt_uid": "a"}
    runtime, container = await find.running(workloads, **asked, org_id="acme", project_id="train")  # type: ignore[arg-type]
    assert (runtime.name, container) == ("process", "c1")
    for org_id, project_id in (("rival", "train"), ("acme", "lab")):
        with pytest.raises(HostlerError) as refused:
            await find.running(workloads, **asked, org_id=org_id, project_id=project_id)  # type: ignore[arg-type]
        assert refused.value.code == "task_not_running"
    with pytest.raises(HostlerError):
        await find.running(None, **asked, org_id="acme", project_id="train")


def test_X1_a_transcript_holds_nothing_that_a_terminal_acts_on() -> None:
    lines: list[str] = []
    transcript = Transcript(lines.append)
    transcript.take("gr\u00fc".encode()[:3])
    transcript.take("\u00fc\x1b[2J\x9b\r\n".encode()[1:] + b"x" * (LONGEST + 1) + b"\xff")
    transcript.close()
    assert lines[0] == "gr\u00fc\\x1b[2J\\x9b"
    assert lines[1] == "x" * LONGEST
    assert lines[2] == "x\ufffd"


async def test_X1_a_flood_of_ends_of_the_input_is_kept_nowhere() -> None:
    run = Run("cat")
    for _ in range(500):
        run.session._take(RelayEnd())
    assert run.session._input.qsize() == 1
