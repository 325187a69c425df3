"""TE-22 on the node: a connection leads to a port that the attempt holds, and nowhere else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hostler.agent.containers.forward import connected
from hostler.agent.containers.ports import PortBook
from hostler.agent.containers.runtime import State, Status
from hostler.base.errors import HostlerError
from support.fake_terminal import FakeRuntime, FakeWorkloads

ATTEMPT = {"task_id": "t", "attempt_uid": "a", "org_id": "acme", "project_id": "train"}


class Runtime(FakeRuntime):
    def __init__(self, address: str) -> None:
        super().__init__(tenant=("acme", "train"))
        self._address = address

    async def status(self, container: str) -> Status:
        return Status(state=State.RUNNING, address=self._address)


def node(port: int, address: str = "") -> Any:
    workloads: Any = FakeWorkloads(Runtime(address))
    workloads.ports, workloads.node_address = PortBook(20_000, 20_009), ""
    workloads.ports.hold("a", {"web": port})
    return workloads


@asynccontextmanager
async def listener(host: str = "127.0.0.1") -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, host, 0) as server:
        yield server.sockets[0].getsockname()[1]


async def refused(workloads: Any, port: int, **more: Any) -> str:
    with pytest.raises(HostlerError) as err:
        await connected(workloads, **ATTEMPT | more, port=port)
    return err.value.code


async def test_TE_22_bytes_go_both_ways_and_each_side_ends_its_own() -> None:
    async with listener() as port:
        connection = await connected(node(port), **ATTEMPT, port=port)
        await connection.write(b"hello")
        await connection.end_input()
        assert await connection.read() == b"heard hello"
        assert (await connection.read(), await connection.wait()) == (b"", 0)
        await connection.close()


async def test_TE_22_a_port_that_the_attempt_does_not_hold_is_refused_though_somebody_listens() -> None:
    async with listener() as port, listener() as other:
        assert await refused(node(port), other) == "address_not_own"
        assert await refused(node(port), port, attempt_uid="b") == "address_not_own"


async def test_S2_the_port_of_another_tenant_is_not_found() -> None:
    async with listener() as port:
        assert await refused(node(port), port, project_id="lab") == "task_not_running"


async def test_TE_22_a_container_with_an_address_of_its_own_is_reached_there_alone() -> None:
    async with listener("127.0.0.2") as port:
        connection = await connected(node(port, "127.0.0.2"), **ATTEMPT, port=port)
        await connection.close()
    async with listener() as port:
        assert await refused(node(port, "127.0.0.2"), port) == "endpoint_unreachable"
