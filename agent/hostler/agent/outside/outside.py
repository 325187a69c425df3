"""The runner's end: calls and links, made by the network process. Survives that process; work goes on meanwhile."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from hostler.agent.outside import frames
from hostler.agent.outside.frames import (
    Answer,
    Ask,
    CloseLink,
    CloseRelay,
    Drop,
    Ended,
    More,
    OpenLink,
    OpenRelay,
    Piece,
    Pull,
    Ready,
    Received,
    Relayed,
    RelayGone,
    Send,
    Tls,
)
from hostler.base.codes import CODES
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.wire.node import FromControl
from hostler.wire.relay import WINDOW, RelayData, RelayFrame

_log = get_logger("hostler.agent.outside")
_PAUSE_S = 0.5
CREDIT = 8  # messages of a pull that may wait here
STALLED_S = 60.0
_MOST_FRAMES = 4096
_MOST_RELAYS = 32  # each holds a program of somebody's, and no task's slot
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Asks(Protocol):
    """Makes one unary call. Raises what the control plane answered, or `controller_unreachable`."""

    async def __call__(self, tls: Tls, address: str, method: str, request: bytes, timeout_s: float = 20.0) -> bytes: ...


class Pulling(Protocol):
    """Makes one call whose answer is a stream. See `Outside.pull`."""

    def __call__(self, tls: Tls, address: str, method: str, request: bytes) -> AsyncGenerator[bytes, None]: ...


class RemoteLink:
    """An open link. `values` ends by raising why."""

    def __init__(self, number: int, outside: "Outside") -> None:
        self.number = number
        self._outside = outside
        self.arrived: asyncio.Queue[FromControl | HostlerError] = asyncio.Queue(256)

    async def values(self) -> AsyncIterator[FromControl]:
        """What the control plane sends, in order."""
        while True:
            value = await self.arrived.get()
            if isinstance(value, HostlerError):
                raise value
            yield value

    async def send(self, messages: list[bytes]) -> None:
        await self._outside.say(Send(link=self.number, messages=tuple(messages)))


class RemoteRelay:
    """An open relay. `receive` ends by raising why."""

    def __init__(self, number: int, outside: "Outside") -> None:
        self.number = number
        self._outside = outside
        self._arrived: deque[RelayFrame] = deque()
        self._bytes = 0
        self._why: HostlerError | None = None
        self._news = asyncio.Event()

    def took(self, frame: RelayFrame) -> bool:
        """False when more arrives than anybody granted."""
        self._arrived.append(frame)
        self._bytes += len(frame.data) if isinstance(frame, RelayData) else 0
        self._news.set()
        return len(self._arrived) <= _MOST_FRAMES and self._bytes <= WINDOW

    def gone(self, why: HostlerError) -> None:
        self._why = why
        self._news.set()

    async def receive(self) -> RelayFrame:
        """The next frame; what came before the end is given first."""
        while not self._arrived:
            if self._why is not None:
                raise self._why
            self._news.clear()
            await self._news.wait()
        frame = self._arrived.popleft()
        self._bytes -= len(frame.data) if isinstance(frame, RelayData) else 0
        return frame

    async def send(self, frame: RelayFrame) -> None:
        await self._outside.say(Relayed(relay=self.number, frame=frame))


class Outside:
    """Loop `run` reads frames; `connect` gives a fresh socket to the network process whenever one is needed."""

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        self._connect = connect
        self._numbers = itertools.count(1)
        self._links: dict[int, RemoteLink] = {}
        self._relays: dict[int, RemoteRelay] = {}
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._pulls: dict[int, asyncio.Queue[bytes | HostlerError | None]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._up = asyncio.Event()
        self.uid = -1

    @property
    def open_relays(self) -> int:
        return len(self._relays)

    async def run(self) -> None:
        """Keeps a network process at hand; every link and call of one that ends fails with it."""
        while True:
            try:
                reader, writer = await self._connect()
                await self._read(reader, writer)
            except HostlerError as err:
                _log.error("outside.failed", error=err)
            except OSError as err:
                _log.error("outside.not_started", error=err)
            finally:
                self._gone()
            await asyncio.sleep(_PAUSE_S)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        try:
            while (frame := await frames.read(reader, frames.TO_RUNNER)) is not None:
                await self._take(frame)
        finally:
            writer.close()

    async def _take(self, frame: frames.ToRunner) -> None:
        if isinstance(frame, Ready):
            self.uid = frame.uid
            _log.info("outside.ready", uid=frame.uid)
            self._up.set()
        elif isinstance(frame, Received):
            link = self._links.get(frame.link)
            if link is not None:
                await link.arrived.put(frames.value_of(frame))
        elif isinstance(frame, Ended):
            link = self._links.pop(frame.link, None)
            if link is not None:
                await link.arrived.put(_error(frame.error_code, frame.message, frame.hint))
        elif isinstance(frame, Piece):
            self._pulled(frame)
        elif isinstance(frame, Relayed):
            self._relay_took(frame)
        elif isinstance(frame, RelayGone):
            relay = self._relays.pop(frame.relay, None)
            if relay is not None:
                relay.gone(_error(frame.error_code, frame.message, ""))
        else:
            self._answered(frame)

    def _pulled(self, piece: Piece) -> None:
        """A network process that sends more than was asked for would fill our memory: that pull is over."""
        pieces = self._pulls.get(piece.call)
        if pieces is None:
            return
        if pieces.qsize() < CREDIT:
            pieces.put_nowait(piece.data)
        else:
            del self._pulls[piece.call]
            pieces.put_nowait(error("malformed_envelope", "the network process sent more than it was asked for"))

    def _relay_took(self, frame: Relayed) -> None:
        """Never waits: a relay that is behind must hold up nothing else. Its window bounds what can be here."""
        relay = self._relays.get(frame.relay)
        if relay is not None and not relay.took(frame.frame):
            self._relays.pop(frame.relay).gone(error("malformed_envelope", "a relay was sent more than it granted"))

    def _answered(self, answer: Answer) -> None:
        pieces = self._pulls.pop(answer.call, None)
        if pieces is not None:
            pieces.put_nowait(_error(answer.error_code, answer.message, answer.hint) if answer.error_code else None)
            return
        call = self._calls.pop(answer.call, None)
        if call is None or call.done():
            return
        if answer.error_code:
            call.set_exception(_error(answer.error_code, answer.message, answer.hint))
        else:
            call.set_result(answer.response)

    def _gone(self) -> None:
        self._up.clear()
        self._writer = None
        lost = error("controller_unreachable", "the agent's network process has ended")
        links, self._links = self._links, {}
        for link in links.values():
            if link.arrived.full():
                link.arrived.get_nowait()  # the end is told even to a reader that is behind
            link.arrived.put_nowait(lost)
        pulls, self._pulls = self._pulls, {}
        for pieces in pulls.values():
            pieces.put_nowait(lost)
        relays, self._relays = self._relays, {}
        for relay in relays.values():
            relay.gone(lost)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.done():
                call.set_exception(lost)

    async def say(self, frame: frames.ToOutside) -> None:
        """Raises `controller_unreachable`, `rate_limited`."""
        writer = self._writer
        if writer is None or writer.is_closing():
            raise error("controller_unreachable", "the agent's network process is not there")
        frames.write(writer, frame)
        try:
            await writer.drain()
        except ConnectionError as err:
            raise error("controller_unreachable", "the agent's network process has ended") from err

    async def ask(self, tls: Tls, address: str, method: str, request: bytes, timeout_s: float = 20.0) -> bytes:
        """One unary call, by a network process that is up or comes up in time."""
        try:
            async with asyncio.timeout(timeout_s + 5):
                await self._up.wait()
                number = next(self._numbers)
                answer = self._calls[number] = asyncio.get_running_loop().create_future()
                await self.say(
                    Ask(call=number, tls=tls, address=address, method=method, request=request, timeout_s=timeout_s)
                )
                response: bytes = await answer
                return response
        except TimeoutError as err:
            raise error("controller_unreachable", f"no answer from {address} in time") from err

    async def pull(self, tls: Tls, address: str, method: str, request: bytes) -> AsyncGenerator[bytes, None]:
        """The messages that answer one call, in order; never more than `CREDIT` wait here.

        Raises:
            HostlerError: what the control plane answered; `controller_unreachable`, also where nothing comes for long.
        """
        try:
            async with asyncio.timeout(STALLED_S):
                await self._up.wait()
            number = next(self._numbers)
            pieces = self._pulls[number] = asyncio.Queue()
            try:
                await self.say(
                    Pull(call=number, tls=tls, address=address, method=method, request=request, credit=CREDIT)
                )
                while True:
                    async with asyncio.timeout(STALLED_S):
                        piece = await pieces.get()
                    if piece is None:
                        return
                    if isinstance(piece, HostlerError):
                        raise piece
                    yield piece
                    await self.say(More(call=number, count=1))
            finally:
                if self._pulls.pop(number, None) is not None and self._up.is_set():
                    await self.say(Drop(call=number))
        except TimeoutError as err:
            raise error("controller_unreachable", f"nothing came from {address} for {STALLED_S:.0f} s") from err

    @asynccontextmanager
    async def link(self, tls: Tls, address: str, hello: bytes, *, polls: bool) -> AsyncIterator[RemoteLink]:
        """A link for as long as the block lasts."""
        await self._up.wait()
        link = RemoteLink(next(self._numbers), self)
        self._links[link.number] = link
        try:
            await self.say(OpenLink(link=link.number, tls=tls, address=address, polls=polls, hello=hello))
            yield link
        finally:
            if self._links.pop(link.number, None) is not None and self._up.is_set():
                await self.say(CloseLink(link=link.number))

    @asynccontextmanager
    async def relay(self, tls: Tls, address: str, relay_id: str) -> AsyncIterator[RemoteRelay]:
        """A relay for as long as the block lasts. Raises `controller_unreachable` while there is no network process."""
        if len(self._relays) >= _MOST_RELAYS:
            raise error("rate_limited", f"{_MOST_RELAYS} relays are open on this node")
        relay = RemoteRelay(next(self._numbers), self)
        self._relays[relay.number] = relay
        try:
            await self.say(OpenRelay(relay=relay.number, tls=tls, address=address, relay_id=relay_id))
            yield relay
        finally:
            if self._relays.pop(relay.number, None) is not None and self._up.is_set():
                await self.say(CloseRelay(relay=relay.number))


def _error(code: str, message: str, hint: str) -> HostlerError:
    """Codes come over the network; one that is unknown here says no more than that something answered."""
    return error(code if code in CODES else "controller_unreachable", message[:2000], hint=hint[:2000])
