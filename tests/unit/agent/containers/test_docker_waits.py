"""P9, RN-01: which calls the Docker Engine gets from a start to the end, and who hears of the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.docker import Docker
from hostler.agent.containers.runtime import Line, State, Status
from hostler.agent.containers.spec import ContainerSpec
from hostler.agent.host import docker_version
from hostler.base.errors import HostlerError
from support.workloads import until

STAMP = "2026-11-22T10:00:00.000000000Z"


class Engine:
    """One container `c` behind a socket. `did` are the calls in their order; `ends` lets it end.

    The answer to a call that is `slow` waits for `goes_on`. A version of its API below `least` is refused.
    """

    least = 1.0

    def __init__(self) -> None:
        self.state, self.ends = "created", asyncio.Event()
        self.slow, self.goes_on = "", asyncio.Event()
        self.did: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]))
                method, target, _ = head.decode().split("\r\n")[0].split(" ")
                path, _, query = target.partition("?")
                call = f"{method} {path.rpartition('/')[2]}{' follow' if 'follow=1' in query else ''}"
                if float(path.removeprefix("/v").partition("/")[0]) < self.least:
                    writer.write(refusal(self.least))
                    continue
                self.did.append(call)
                if call == self.slow:
                    await self.goes_on.wait()
                body = await self.answer(call)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def answer(self, call: str) -> bytes:
        said: Any = {"Id": "c", "State": {"Status": self.state, "Running": self.state == "running", "ExitCode": 0}}
        if call == "POST start":
            self.state = "running"
        elif call in ("POST wait", "GET logs follow"):
            await self.ends.wait()
            self.state = "exited"
        if call.startswith("GET logs"):
            record = f"{STAMP} said\n".encode()
            return b"\1\0\0\0" + len(record).to_bytes(4, "big") + record
        return json.dumps(said).encode()


def refusal(least: float) -> bytes:
    """As Docker 29.0 gives it."""
    said = f"client version 1.41 is too old. Minimum supported API version is {least}, please upgrade your client"
    body = json.dumps({"message": said}).encode()
    return b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[tuple[Engine, Docker]]:
    engine, docker = Engine(), Docker(tmp_path / "s", "nod")
    server = await asyncio.start_unix_server(engine.serve, tmp_path / "s")
    yield engine, docker
    await docker.close()
    server.close()


async def told(docker: Docker) -> list[Line]:
    return [line async for line in docker.logs("c", follow=True)]


async def begun(engine: Engine, docker: Docker) -> "tuple[asyncio.Future[Status], asyncio.Future[list[Line]]]":
    """One that runs: who waits for its end, and who follows its log."""
    made = await docker.create(ContainerSpec(name="n", image="i", command=("x",), environment={}, labels={}))
    await docker.start(made)
    waiting = asyncio.ensure_future(docker.wait(made))
    await asyncio.sleep(0)
    telling = asyncio.ensure_future(told(docker))
    await until(lambda: {"POST wait", "GET logs follow"} <= set(engine.did))
    return waiting, telling


async def test_P9_one_that_was_just_started_is_waited_for_and_looked_at_once(parts: tuple[Engine, Docker]) -> None:
    engine, docker = parts
    async with asyncio.timeout(10):
        waiting, telling = await begun(engine, docker)
        engine.ends.set()
        assert (await waiting).state is State.EXITED
        assert [line.text for line in await telling] == ["said"], (
            "told once, by the stream or by the look after the end"
        )
    assert engine.did[:2] == ["POST create", "POST start"]
    assert sorted(engine.did[2:4]) == ["GET logs follow", "POST wait"]
    assert sorted(engine.did[4:]) == ["GET json", "GET logs"], "how it ended, and what the stream may have left out"


async def test_P9_what_is_left_of_its_output_is_asked_for_while_the_engine_looks_at_its_end(
    parts: tuple[Engine, Docker],
) -> None:
    engine, docker = parts
    engine.slow = "GET json"
    async with asyncio.timeout(10):
        waiting, telling = await begun(engine, docker)
        engine.ends.set()
        assert len(await telling) == 1
        assert not waiting.done()
        engine.goes_on.set()
        assert (await waiting).state is State.EXITED


async def test_RN_01_one_that_nobody_has_started_has_not_ended(parts: tuple[Engine, Docker]) -> None:
    """To the engine's own wait it has."""
    engine, docker = parts
    engine.ends.set()
    made = await docker.create(ContainerSpec(name="n", image="i", command=("x",), environment={}, labels={}))
    waiting = asyncio.ensure_future(docker.wait(made))
    await asyncio.sleep(0.2)
    assert (waiting.done(), "POST wait" in engine.did) == (False, False)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_TE_20_one_of_an_earlier_agent_is_looked_at_first(parts: tuple[Engine, Docker]) -> None:
    engine, docker = parts
    engine.state = "exited"
    async with asyncio.timeout(10):
        assert (await docker.wait("c")).state is State.EXITED
    assert engine.did == ["GET json"]


async def test_RN_03_an_engine_that_wants_a_later_version_of_its_api_gets_it(parts: tuple[Engine, Docker]) -> None:
    engine, docker = parts
    engine.least = 1.44
    spec = ContainerSpec(name="n", image="i", command=("x",), environment={}, labels={})
    made = await asyncio.gather(docker.create(spec), docker.create(spec))
    assert (made, engine.did) == (["c", "c"], ["POST create", "POST create"])
    engine.least = 1.52  # its successor, while we live
    with pytest.raises(HostlerError) as away:
        async with docker._client.stream("/containers/c/logs", "reading"):
            pass
    assert away.value.code == "runtime_unavailable", "its caller asks again"
    async with docker._client.stream("/containers/c/logs", "reading") as pieces:
        assert b"said" in b"".join([piece async for piece in pieces])


@pytest.mark.parametrize(
    ("status", "said", "version"),
    [
        (400, b"client version 1.41 is too old. Minimum supported API version is 1.44, please", "1.44"),
        (400, b"Minimum supported API version is 1.44", ""),
        (400, b"client version 1.41 is too old. Minimum supported API version is 1.44/../x", "1.44"),
        (400, b"client version 1.41 is too old. Minimum supported API version is 9", ""),
        (500, b"client version 1.41 is too old. Minimum supported API version is 1.44", ""),
        (200, b"", ""),
    ],
)
def test_RN_03_only_a_refusal_of_the_version_says_another(status: int, said: bytes, version: str) -> None:
    assert docker_version.wanted(status, said) == version
