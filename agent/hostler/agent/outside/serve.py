"""The network process's loop: frames in, calls and links out. One task a link, one a call; all end with the socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio

from hostler.agent.outside import frames
from hostler.agent.outside.dial import dial
from hostler.agent.outside.frames import (
    Answer,
    Ask,
    CloseLink,
    CloseRelay,
    Ended,
    OpenLink,
    OpenRelay,
    Ready,
    Relayed,
    RelayGone,
    Send,
    ToRunner,
)
from hostler.agent.outside.grpc_errors import as_hostler_error
from hostler.agent.outside.links import Link
from hostler.agent.outside.pulls import Pulls
from hostler.agent.outside.relays import RelayCall
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.wire.node import FromControl

_log = get_logger("hostler.agent.outside")
_STALLED_S = 20.0
_LAST_WORDS_S = 2.0
# The calls there are; a runner asks for nothing else, and a method is never a free text on the wire.
METHODS = {
    "Renew": "/hostler.v1.NodeService/Renew",
    "Check": "/hostler.v1.NodeService/Check",
    "Mint": "/hostler.v1.NodeService/Mint",
    "TaskCall": "/hostler.v1.NodeService/TaskCall",
    "Enroll": "/hostler.v1.EnrollmentService/Enroll",
    "Recover": "/hostler.v1.EnrollmentService/Recover",
}
_OFTEN = frozenset({"TaskCall"})


class Server:
    """Serves one runner."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._links: dict[int, tuple[Link, asyncio.Task[None]]] = {}
        self._pulls = Pulls(self._say)
        self._relays: dict[int, tuple[RelayCall, asyncio.Task[None]]] = {}
        self._kept = Kept()

    async def run(self, uid: int) -> None:
        """Until the runner closes the socket."""
        async with asyncio.TaskGroup() as group:
            await self._say(Ready(uid=uid))
            while (frame := await frames.read(self._reader, frames.TO_OUTSIDE)) is not None:
                await self._take(group, frame)
            for _, task in [*self._links.values(), *self._relays.values()]:
                task.cancel()
            self._pulls.cancel()
        await self._kept.close()
        self._writer.close()

    async def _take(self, group: asyncio.TaskGroup, frame: frames.ToOutside) -> None:
        if isinstance(frame, OpenLink):
            link = Link(frame, lambda value: self._forward(frame.link, value))
            self._links[frame.link] = link, group.create_task(self._run(frame.link, link))
        elif isinstance(frame, Send):
            held = self._links.get(frame.link)
            if held is not None:
                await self._hand_on(frame, *held)
        elif isinstance(frame, CloseLink):
            held = self._links.get(frame.link)
            if held is not None:
                held[1].cancel()
        elif isinstance(frame, OpenRelay):
            call = RelayCall(frame, lambda value: self._say(Relayed(relay=frame.relay, frame=value)))
            self._relays[frame.relay] = call, group.create_task(self._relay(frame.relay, call))
        elif isinstance(frame, Relayed | CloseRelay):
            self._to_relay(frame)
        elif isinstance(frame, Ask):
            group.create_task(self._ask(frame))
        else:
            self._pulls.take(group, frame)

    async def _hand_on(self, frame: Send, link: Link, running: "asyncio.Task[None]") -> None:
        """A link whose other end reads nothing must not hold up what the runner wants of the others."""
        try:
            async with asyncio.timeout(_STALLED_S):
                await link.outgoing.put(frame.messages)
        except TimeoutError:
            running.cancel()
            message = f"the control plane took nothing for {_STALLED_S:.0f} s"
            await self._say(Ended(link=frame.link, error_code="controller_unreachable", message=message))

    async def _run(self, number: int, link: Link) -> None:
        ended = Ended(link=number, error_code="controller_unreachable", message="the control plane closed the session")
        try:
            await link.run()
        except HostlerError as err:
            ended = Ended(link=number, error_code=err.code, message=err.message, hint=err.hint)
        except Exception as err:  # noqa: BLE001 - the edge of a link: this one ends, the process goes on
            _log.exception("link.failed")
            ended = Ended(link=number, error_code="internal_error", message=f"the link failed: {type(err).__name__}")
        finally:
            self._links.pop(number, None)
        await self._say(ended)

    def _to_relay(self, frame: Relayed | CloseRelay) -> None:
        """Never waits. One that is closed has a moment for its last words."""
        found = self._relays.get(frame.relay)
        if found is None:
            return
        call, running = found
        if isinstance(frame, CloseRelay):
            call.finish()
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, running.cancel)
        elif not call.put(frame.frame):
            running.cancel()

    async def _relay(self, number: int, call: RelayCall) -> None:
        said = "the control plane closed the relay"
        gone = RelayGone(relay=number, error_code="controller_unreachable", message=said)
        try:
            await call.run()
        except HostlerError as err:
            gone = RelayGone(relay=number, error_code=err.code, message=err.message)
        except Exception as err:  # noqa: BLE001 - the edge of a relay: this one ends, the process goes on
            _log.exception("relay.failed")
            gone = RelayGone(relay=number, error_code="internal_error", message=f"it failed: {type(err).__name__}")
        finally:
            self._relays.pop(number, None)
        await self._say(gone)

    async def _ask(self, ask: Ask) -> None:
        try:
            response = await self._call(ask)
        except HostlerError as err:
            await self._say(Answer(call=ask.call, error_code=err.code, message=err.message, hint=err.hint))
        else:
            await self._say(Answer(call=ask.call, response=response))

    async def _call(self, ask: Ask) -> bytes:
        if ask.method not in METHODS:
            raise error("internal_error", f"there is no call {ask.method!r}")
        if ask.method in _OFTEN:
            async with self._kept.channel(ask) as channel:
                return await _answered(channel, ask)
        async with dial(ask.address, ask.tls) as channel:
            return await _answered(channel, ask)

    async def _forward(self, link: int, value: FromControl) -> None:
        await self._say(frames.received(link, value))

    async def _say(self, frame: ToRunner) -> None:
        if self._writer.is_closing():
            return
        frames.write(self._writer, frame)
        try:
            await self._writer.drain()
        except ConnectionError:
            self._reader.feed_eof()  # the runner is gone, and we with it


class _Held:
    def __init__(self, ask: Ask) -> None:
        self.target = ask.address, ask.tls
        self.channel = dial(ask.address, ask.tls)
        self.calls = 0


class Kept:
    """One channel for the calls that tasks make all the time: a handshake for each would be most of their cost.

    Another certificate or address is another channel; the one before is closed when its last call has ended.
    """

    def __init__(self) -> None:
        self._held: _Held | None = None

    @asynccontextmanager
    async def channel(self, ask: Ask) -> AsyncIterator[grpc.aio.Channel]:
        before = self._held
        if before is None or before.target != (ask.address, ask.tls):
            self._held = _Held(ask)
            if before is not None and not before.calls:
                await before.channel.close(None)
        held = self._held
        assert held is not None
        held.calls += 1
        try:
            yield held.channel
        finally:
            held.calls -= 1
            if held is not self._held and not held.calls:
                await held.channel.close(None)

    async def close(self) -> None:
        """When no call is left."""
        if self._held is not None:
            await self._held.channel.close(None)


async def _answered(channel: grpc.aio.Channel, ask: Ask) -> bytes:
    try:
        answer: bytes = await channel.unary_unary(METHODS[ask.method], None, None)(ask.request, timeout=ask.timeout_s)
    except grpc.aio.AioRpcError as err:
        raise as_hostler_error(err, ask.address) from err
    return answer
