"""TE-22: the step `task.forward`: says what it would do, carries one connection, and never carries one twice."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.ports import PortBook
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import StepContext, Truth
from hostler.agent.steps.table import step_kind
from hostler.base.errors import HostlerError
from hostler.catalog.params.task import TaskForward
from hostler.wire.relay import STDIN, WINDOW, RelayBeat, RelayData, RelayEnd, RelayFrame, RelayWindow
from support.fake_terminal import FakeRuntime, FakeWorkloads
from support.steps import Told, context_of

KIND = step_kind("task.forward")
QUESTION = b"GET / HTTP/1.1\r\n\r\n"


class Wire:
    """Both ends of a relay in the test's hands, and whether the step has left its own."""

    def __init__(self, *frames: RelayFrame) -> None:
        self.down: asyncio.Queue[RelayFrame] = asyncio.Queue()
        self.up: list[RelayFrame] = []
        self.opened: list[str] = []
        self.left = False
        for frame in frames:
            self.down.put_nowait(frame)

    @asynccontextmanager
    async def open(self, relay_id: str) -> AsyncIterator["Wire"]:
        self.opened.append(relay_id)
        try:
            yield self
        finally:
            self.left = True

    async def receive(self) -> RelayFrame:
        return await self.down.get()

    async def send(self, frame: RelayFrame) -> None:
        self.up.append(frame)

    @property
    def said(self) -> bytes:
        return b"".join(frame.data for frame in self.up if isinstance(frame, RelayData))


def asked(tmp_path: Path, told: Told, port: int, wire: Wire | None = None, **more: Any) -> StepContext:
    """For the attempt that holds port 20001 here, of the project `train` of `acme`."""
    workloads: Any = FakeWorkloads(FakeRuntime(tenant=("acme", "train")))
    workloads.ports, workloads.node_address = PortBook(20_000, 20_009), ""
    workloads.ports.hold("att_1", {"web": more.pop("held", port)})
    params = TaskForward(task_id="tsk_1", attempt_uid="att_1", relay_id="rly_1", port=port)
    relay = wire.open if wire else None
    return context_of(params, Host(root=tmp_path), told, workloads=workloads, relay=relay, **more)


@asynccontextmanager
async def task(*, answers: bool = True) -> AsyncIterator[int]:
    """Says what it heard and ends; or takes everything and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read()
        if answers:
            writer.write(b"heard " + heard)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def refused(context: StepContext) -> str:
    with pytest.raises(HostlerError) as err:
        await KIND.apply(context)
    return err.value.code


async def test_TE_22_a_plan_names_the_port_and_touches_nothing(tmp_path: Path) -> None:
    context = context_of(
        TaskForward(task_id="tsk_1", attempt_uid="att_1", relay_id="rly_1", port=8080), Host(root=tmp_path), Told()
    )
    (change,) = (await KIND.plan(context)).changes
    assert (change.action, change.target) == ("connect", "port 8080 of task tsk_1")
    assert list(tmp_path.iterdir()) == []


async def test_TE_22_K2_after_a_restart_it_is_over_and_is_not_begun_again(tmp_path: Path) -> None:
    """Whoever attached has been told that it broke off; a second connection would say to the task what it heard."""
    wire = Wire()
    probe = await KIND.probe(asked(tmp_path, Told(), 20_001, wire))
    assert (probe.truth, probe.error_code) == (Truth.DONE, "relay_closed")
    assert wire.opened == []


async def test_TE_22_it_carries_one_connection_and_says_how_much_and_not_what(tmp_path: Path) -> None:
    wire = Wire(RelayWindow(WINDOW), RelayData(STDIN, QUESTION), RelayEnd())
    told = Told()
    async with task() as port:
        outcome = await KIND.apply(asked(tmp_path, told, port, wire))
    answer = b"heard " + QUESTION
    assert (wire.opened, wire.said, wire.left) == (["rly_1"], answer, True)
    assert outcome.outputs == {
        "bytes_in": len(QUESTION),
        "bytes_out": len(answer),
        "output_sha256": hashlib.sha256(answer).hexdigest(),
    }
    assert told.lines == [], "what goes through is the tenant's own"
    assert isinstance(wire.up[-1], RelayEnd)


async def test_TE_22_a_port_of_somebody_else_is_not_dialled_and_the_client_is_told_why(tmp_path: Path) -> None:
    async with task() as port:
        wire = Wire(RelayWindow(WINDOW))
        assert await refused(asked(tmp_path, Told(), port, wire, held=20_001)) == "address_not_own"
        assert [frame.error_code for frame in wire.up if isinstance(frame, RelayEnd)] == ["address_not_own"]
        assert wire.left


async def test_S2_a_task_of_another_project_does_not_run_here(tmp_path: Path) -> None:
    async with task() as port:
        for tenant in ({"project_id": "other"}, {"org_id": "rival"}):
            wire = Wire(RelayWindow(WINDOW))
            assert await refused(asked(tmp_path, Told(), port, wire, **tenant)) == "task_not_running"
            assert wire.said == b""


@pytest.mark.parametrize(("end", "code"), [("cancel", "canceled"), ("deadline", "timeout")])
async def test_TE_22_a_connection_ends_with_its_step(tmp_path: Path, end: str, code: str) -> None:
    async with task(answers=False) as port:
        wire, cancelled = Wire(RelayWindow(WINDOW)), asyncio.Event()
        deadline_s = 1.0 if end == "deadline" else 30.0
        context = asked(tmp_path, Told(), port, wire, cancelled=cancelled, deadline_s=deadline_s)

        async def client() -> None:
            if end == "cancel":
                asyncio.get_running_loop().call_later(0.1, cancelled.set)
            while True:
                await wire.down.put(RelayBeat())
                await asyncio.sleep(0.05)

        beating = asyncio.ensure_future(client())
        assert await refused(context) == code
        beating.cancel()
    assert [frame.error_code for frame in wire.up if isinstance(frame, RelayEnd)] == [code]
