"""A control plane that has answered before a node's first word is heard all the same: why, and when to come again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
import pytest

from hostler.agent.outside import links, relays
from hostler.agent.outside.frames import OpenLink, OpenRelay, Tls
from hostler.agent.outside.grpc_errors import CODE_KEY
from hostler.base.errors import HostlerError
from hostler.wire.codec_node import control_message
from hostler.wire.codec_relay import relay_message
from hostler.wire.node import Close, FromControl
from hostler.wire.relay import RelayData, RelayEnd, RelayFrame

TLS = Tls(trust_domain="d", ca_pems=())
CLOSE = Close(error_code="rate_limited", message="too busy", retry_after_ms=1500)
END = RelayEnd(error_code="shutting_down", message="it goes")


class Answered(grpc.GenericRpcHandler):
    """Says its word without reading any, and then why it ends, if for an error."""

    def __init__(self, *words: bytes, denied: str = "") -> None:
        self.words, self.denied = words, denied

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        async def answer(_requests: object, context: Any) -> AsyncIterator[bytes]:
            for word in self.words:
                yield word
            if self.denied:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no", ((CODE_KEY, self.denied),))

        return grpc.stream_stream_rpc_method_handler(answer, None, None)


class Late:
    """A channel whose calls have ended before anything is written to them, as on a node with no time to spare."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    def stream_stream(self, *named: Any) -> Any:
        opened = self._channel.stream_stream(*named)
        return lambda *given, **options: _LateCall(opened(*given, **options))


class _LateCall:
    def __init__(self, call: Any) -> None:
        self._call = call
        self.cancel, self.add_done_callback = call.cancel, call.add_done_callback

    def __aiter__(self) -> Any:
        return self._call.__aiter__()

    async def write(self, message: Any) -> None:
        async with asyncio.timeout(20):
            while True:  # it says nothing of its end before it is spoken to
                await self._call.write(message)
                await asyncio.sleep(0.01)


@asynccontextmanager
async def answered(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *words: bytes,
    denied: str = "",
    wrap: Callable[[grpc.aio.Channel], Any] = Late,
) -> AsyncIterator[None]:
    address = f"unix:{tmp_path}/control"

    def dial(*_: object) -> Any:
        return wrap(grpc.aio.insecure_channel(address))

    monkeypatch.setattr(links, "dial", dial)
    monkeypatch.setattr(relays, "dial", dial)
    made = grpc.aio.server(handlers=(Answered(*words, denied=denied),))
    made.add_insecure_port(address)
    await made.start()
    try:
        yield
    finally:
        await made.stop(0)


async def told_by_link() -> list[FromControl]:
    told: list[FromControl] = []

    async def forward(value: FromControl) -> None:
        told.append(value)

    with pytest.raises(HostlerError, match="the session ended before it was open"):
        await links.Link(OpenLink(link=1, tls=TLS, address="", polls=False, hello=b""), forward).run()
    return told


async def told_by_relay() -> list[RelayFrame]:
    told: list[RelayFrame] = []

    async def forward(value: RelayFrame) -> None:
        told.append(value)

    with pytest.raises(HostlerError, match="the relay ended before it was open"):
        await relays.RelayCall(OpenRelay(relay=1, tls=TLS, address="", relay_id="rly_1"), forward).run()
    return told


async def test_a_session_that_was_closed_before_the_hello_still_says_when_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answered(tmp_path, monkeypatch, control_message(CLOSE).SerializeToString()):
        assert await told_by_link() == [CLOSE]


async def test_a_relay_that_was_ended_before_it_was_opened_still_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answered(tmp_path, monkeypatch, relay_message(END).SerializeToString()):
        assert await told_by_relay() == [END]


async def test_one_that_ends_without_a_word_was_never_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with answered(tmp_path, monkeypatch):
        assert await told_by_link() == []
        assert await told_by_relay() == []


async def test_a_node_that_still_writes_when_it_is_turned_away_hears_why_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC puts the failure of the write in the place of what the control plane said, more often than not."""
    async with answered(tmp_path, monkeypatch, denied="revoked", wrap=lambda channel: channel):
        for _ in range(20):
            link = links.Link(OpenLink(link=1, tls=TLS, address="", polls=False, hello=b"h"), nobody)
            link.outgoing.put_nowait((b"r" * 1000,) * 50)
            relay = relays.RelayCall(OpenRelay(relay=1, tls=TLS, address="", relay_id="rly_1"), nobody)
            for _ in range(50):
                relay.put(RelayData(1, b"r" * 1000))
            calls: tuple[links.Link | relays.RelayCall, ...] = (link, relay)
            for call in calls:
                with pytest.raises(HostlerError) as caught:
                    await call.run()
                assert caught.value.code == "revoked"


async def nobody(_: object) -> None:
    pass
