"""The parser: one certain request, or a refusal; never anything else (fuzzed)."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.agent.taskapi.messages import MAX_HEAD, Answer, Request, encoded, read_request, split_target
from hostler.base.errors import HostlerError

GOOD = b"PUT /v1/endpoints/e%201?a=b&c= HTTP/1.1\r\nHost: task\r\ncontent-length: 2\r\nX-A:  b \r\n\r\n{}"


class Sink:
    def __init__(self) -> None:
        self.said = b""

    def write(self, data: bytes) -> None:
        self.said += data

    async def drain(self) -> None:
        pass


async def read(data: bytes) -> Request | None:
    reader = asyncio.StreamReader(limit=MAX_HEAD)
    reader.feed_data(data)
    reader.feed_eof()
    return await read_request(reader, Sink())  # type: ignore[arg-type]


async def code_of(data: bytes) -> str:
    with pytest.raises(HostlerError) as raised:
        await read(data)
    return raised.value.code


async def test_a_request_is_taken_apart() -> None:
    request = await read(GOOD)
    assert request is not None
    assert request.path == ("v1", "endpoints", "e 1")
    assert request.query == {"a": "b", "c": ""}
    assert request.headers == {"host": "task", "content-length": "2", "x-a": "b"}
    assert request.body == b"{}"
    assert await read(b"") is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na: b\x00\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\nx",
        b"POST / HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nx",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 0\r\ntransfer-encoding: identity\r\n\r\n",
        b"GET /%ff HTTP/1.1\r\n\r\n",
        b"GET /?a=%ff HTTP/1.1\r\n\r\n",
        b"GET /?a=1&a=2 HTTP/1.1\r\n\r\n",
        b"GET /?" + b"&".join(b"a%d=1" % n for n in range(20)) + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n",
        b"garbage",
    ],
)
async def test_what_is_not_certain_is_refused(data: bytes) -> None:
    assert await code_of(data) == "invalid_request"


async def test_sizes_are_bounded() -> None:
    assert await code_of(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n") == "too_large"
    many = b"".join(b"a%d: b\r\n" % n for n in range(65))
    assert await code_of(b"GET / HTTP/1.1\r\n" + many + b"\r\n") == "too_large"
    assert await code_of(b"POST / HTTP/1.1\r\ncontent-length: 1048577\r\n\r\n") == "too_large"


async def test_curl_that_asks_first_is_told_to_go_on() -> None:
    reader, sink = asyncio.StreamReader(limit=MAX_HEAD), Sink()
    reader.feed_data(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx")
    request = await read_request(reader, sink)  # type: ignore[arg-type]
    assert request is not None
    assert (request.body, sink.said) == (b"x", b"HTTP/1.1 100 Continue\r\n\r\n")


async def _judged(data: bytes) -> None:
    """A request whose length fits, or one of two refusals."""
    try:
        request = await read(data)
    except HostlerError as err:
        assert err.code in ("invalid_request", "too_large")  # noqa: PT017
        return
    if request is not None:
        assert len(request.body) == int(request.headers.get("content-length", "0"))
        assert all("\r" not in value and "\n" not in value for value in request.headers.values())


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200))
def test_fuzz_any_bytes(data: bytes) -> None:
    asyncio.run(_judged(data))


def test_fuzz_bent_requests() -> None:
    rng = random.Random(3)

    async def all_of_them() -> None:
        for _ in range(3000):
            data = bytearray(GOOD)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                choice = rng.randrange(3)
                if choice == 0:
                    data[at] = rng.randrange(256)
                elif choice == 1:
                    del data[at]
                else:
                    data[at:at] = rng.choice((b"\r\n", b"\x00", b"%", b":", b"content-length: 1\r\n", b" "))
            await _judged(bytes(data))

    asyncio.run(all_of_them())


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_fuzz_targets(text: str) -> None:
    try:
        path, query = split_target(f"/{text}")
    except HostlerError as err:
        assert err.code == "invalid_request"  # noqa: PT017
    else:
        assert path
        assert isinstance(query, dict)


def test_an_answer_ends_its_connection() -> None:
    said = encoded(Answer(200, b"{}", headers=(("age", "3"),)))
    assert said.endswith(b"\r\nconnection: close\r\nage: 3\r\n\r\n{}")
