"""P9: connections to an engine that are kept, against whatever comes back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.agent.containers import docker_http
from hostler.agent.containers.docker_http import Broken, Connections

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"


class Engine:
    """Says `answers`, one a request; b"" hangs up instead. `asked` are the requests, by connection."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.asked = list(answers), list[list[bytes]]()
        self.open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(requests := [])
        self.open.append(writer)
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                for at in range(0, len(answer), 7):  # in pieces that end anywhere
                    writer.write(answer[at : at + 7])
                    await asyncio.sleep(0)
                if not answer or b"no length" in answer:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[tuple[Engine, Connections]]:
    made = Engine()
    server = await asyncio.start_unix_server(made.serve, tmp_path / "s")
    connections = Connections(tmp_path / "s")
    yield made, connections
    connections.close()
    server.close()


Pair = tuple[Engine, Connections]


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (OK, 200, b"ok"),
        (CHUNKED + b"3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n", 200, b"abc0123456789abcdef"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngone", 404, b"gone"),
        (b"HTTP/1.0 200 OK\r\n\r\nno length", 200, b"no length"),
    ],
)  # fmt: skip
async def test_an_answer_is_read_whole_however_it_comes(engine: Pair, answer: bytes, status: int, body: bytes) -> None:
    one, connections = engine
    one.answers = [answer, OK]
    async with asyncio.timeout(10):
        assert await connections.answer("POST", "/x?y=1", b"{}", {"Content-Type": "application/json"}) == (status, body)
        assert await connections.answer("GET", "/again") == (200, b"ok"), "the next one begins where this one ended"
    first = one.asked[0][0]
    assert first.startswith(b"POST /x?y=1 HTTP/1.1\r\nHost: docker\r\nContent-Length: 2\r\n")
    assert first.endswith(b"\r\n\r\n{}")


async def test_P9_a_connection_is_used_again_and_two_requests_at_once_have_one_each(engine: Pair) -> None:
    one, connections = engine
    one.answers = [OK] * 5
    async with asyncio.timeout(10):
        for _ in range(3):
            await connections.answer("GET", "/a")
        assert [len(each) for each in one.asked] == [3]
        await asyncio.gather(connections.answer("GET", "/b"), connections.answer("GET", "/c"))
    assert [len(each) for each in one.asked] == [4, 1]


async def test_a_connection_that_the_engine_has_closed_is_not_used(engine: Pair) -> None:
    one, connections = engine
    one.answers = [OK, OK]
    async with asyncio.timeout(10):
        await connections.answer("GET", "/a")
        one.open[0].close()
        await asyncio.sleep(0.05)
        assert await connections.answer("GET", "/b") == (200, b"ok")
    assert [len(each) for each in one.asked] == [1, 1]


async def test_RT_06_what_the_engine_did_not_answer_is_not_asked_twice(engine: Pair) -> None:
    """It may have started the container, which may have ended since: whoever asked looks at it first."""
    one, connections = engine
    one.answers = [OK, b"", OK]
    async with asyncio.timeout(10):
        await connections.answer("GET", "/a")
        with pytest.raises(Broken):
            await connections.answer("POST", "/containers/x/start")
    assert sum(b"/start" in request for each in one.asked for request in each) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_an_engine_that_is_away(engine: Pair, answer: bytes) -> None:
    one, connections = engine
    one.answers = [answer]
    async with asyncio.timeout(10):
        with pytest.raises(Broken):
            await connections.answer("GET", "/a")
    assert not connections._free


async def test_an_answer_that_breaks_off_is_none(engine: Pair) -> None:
    one, connections = engine
    one.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nno length is that"]
    async with asyncio.timeout(10):
        with pytest.raises(Broken):
            await connections.answer("GET", "/a")


async def test_an_answer_has_its_bounds(engine: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, connections = engine
    monkeypatch.setattr(docker_http, "MOST", 5)
    one.answers = [CHUNKED + b"6\r\nabcdef\r\n0\r\n\r\n"]
    async with asyncio.timeout(10):
        with pytest.raises(Broken):
            await connections.answer("GET", "/a")


async def test_an_engine_that_is_not_there_is_away(tmp_path: Path) -> None:
    with pytest.raises(Broken):
        await Connections(tmp_path / "none").answer("GET", "/a")


@pytest.mark.parametrize("target", ["/a b\r\nX: y", "/a\n", "/ä"])
async def test_nothing_in_a_name_becomes_a_header(engine: Pair, target: str) -> None:
    one, connections = engine
    one.answers = [OK]
    with pytest.raises(Broken):
        await connections.answer("GET", target)
    assert [request for each in one.asked for request in each] == []


async def test_a_stream_that_is_given_up_takes_its_connection_along(engine: Pair) -> None:
    one, connections = engine
    one.answers = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", OK]
    async with asyncio.timeout(10):
        async with connections.asked("GET", "/logs") as (_, pieces):
            assert await anext(pieces) == b"abc"
        assert await connections.answer("GET", "/b") == (200, b"ok")
    assert len(one.asked) == 2
