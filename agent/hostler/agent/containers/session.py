"""One interactive session: a program in a container on one side, a relay on the other, a bounded window both ways.

    relay ──▶ input queue ──▶ Terminal.write      Terminal.read ──(credit)──▶ relay

Nothing is read from the program that nobody has granted room for, so a slow reader stops the program and fills no
memory. Whatever ends the session, `close` ends the program with everything below it.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from hostler.agent.containers.runtime import END_OF_TRANSMISSION, EndsInput, SplitTerminal, Terminal
from hostler.base.errors import HostlerError, error
from hostler.wire.race import first_of
from hostler.wire.relay import (
    BEAT_S,
    CHUNK,
    SILENT_S,
    STDERR,
    STDOUT,
    WINDOW,
    RelayBeat,
    RelayData,
    RelayEnd,
    RelayFrame,
    RelayResize,
    RelayWindow,
)

CLIENT_S = 35.0  # how long the other end of the relay is waited for
_RESIZE_S = 0.1  # between two sizes; of a flood only the last counts


class RelayLink(Protocol):
    """`receive` raises why the relay is no more."""

    async def receive(self) -> RelayFrame: ...

    async def send(self, frame: RelayFrame) -> None: ...


class Facts(msgspec.Struct):
    """What the receipt says of a session."""

    bytes_in: int = 0
    bytes_out: int = 0
    exit_code: int = 0
    digest: str = ""  # sha256 over everything the program wrote, in order


class Session:
    """Args:
    record: sees everything that the program writes.
    """

    def __init__(self, relay: RelayLink, record: Callable[[bytes], None], *, tty: bool) -> None:
        self._relay = relay
        self._record = record
        self._tty = tty
        self._credit = 0
        self._room = asyncio.Event()
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._granted = 0
        self._is_input_over = False
        self._size: RelayResize | None = None
        self._resized = asyncio.Event()
        self._sha256 = hashlib.sha256()
        self.facts = Facts()

    async def run(
        self, start: Callable[[], Awaitable[Terminal]], ended: Callable[[], Coroutine[Any, Any, None]]
    ) -> Facts:
        """Starts the program once a client is there; returns when it has ended.

        Args:
            ended: raises when the session must not go on.

        Raises:
            HostlerError: `relay_expired`, `relay_closed`, what `start` raises, what `ended` raises.
        """
        try:
            async with asyncio.timeout(CLIENT_S):
                await self._client()
        except TimeoutError as err:
            raise error("relay_expired", "nobody attached to the session") from err
        terminal = await start()
        try:
            return await self._bridge(terminal, ended)
        finally:
            await asyncio.shield(terminal.close())

    async def tell(self, err: HostlerError) -> None:
        """The last word to the client; nobody may be there to hear it."""
        with suppress(HostlerError, TimeoutError):
            async with asyncio.timeout(1):
                await self._relay.send(RelayEnd(error_code=err.code, message=err.message[:500]))

    async def _client(self) -> None:
        while True:
            frame = await self._relay.receive()
            if isinstance(frame, RelayWindow):
                self._credit += frame.bytes
                return
            if isinstance(frame, RelayResize):
                self._size = frame

    async def _bridge(self, terminal: Terminal, ended: Callable[[], Coroutine[Any, Any, None]]) -> Facts:
        await self._grant(WINDOW)
        await first_of(
            self._whole_output(terminal),
            self._receive(),
            self._write(terminal),
            self._resize(terminal),
            self._beat(),
            ended(),
        )
        await self._relay.send(RelayEnd(exit_code=self.facts.exit_code))
        return self.facts

    async def _receive(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SILENT_S):
                    frame = await self._relay.receive()
            except TimeoutError as err:
                raise error("relay_closed", f"nothing was heard of the control plane for {SILENT_S:.0f} s") from err
            except HostlerError as err:
                raise error("relay_closed", f"the relay has ended: {err.message}") from err
            self._take(frame)

    def _take(self, frame: RelayFrame) -> None:
        if isinstance(frame, RelayData):
            self._granted -= len(frame.data)
            if self._granted < 0:
                raise error("relay_closed", "more input came than was granted")
            self.facts.bytes_in += len(frame.data)
            self._input.put_nowait(frame.data)
        elif isinstance(frame, RelayWindow):
            self._credit += frame.bytes
            self._room.set()
        elif isinstance(frame, RelayResize):
            self._size = frame
            self._resized.set()
        elif isinstance(frame, RelayEnd) and not self._is_input_over:
            self._is_input_over = True  # a flood of ends would fill a queue that nobody reads any more
            self._input.put_nowait(None)

    async def _grant(self, count: int) -> None:
        self._granted += count
        await self._relay.send(RelayWindow(count))

    async def _write(self, terminal: Terminal) -> None:
        while (data := await self._input.get()) is not None:
            await terminal.write(data)
            await self._grant(len(data))
        if isinstance(terminal, EndsInput):
            await terminal.end_input()
        elif self._tty:
            await terminal.write(END_OF_TRANSMISSION)
        await asyncio.Event().wait()  # the program's end is what ends the session

    async def _resize(self, terminal: Terminal) -> None:
        while True:
            if self._size is not None and self._tty:
                size, self._size = self._size, None
                await terminal.resize(size.rows, size.columns)
                await asyncio.sleep(_RESIZE_S)
            await self._resized.wait()
            self._resized.clear()

    async def _beat(self) -> None:
        while True:
            await self._relay.send(RelayBeat())
            await asyncio.sleep(BEAT_S)

    async def _whole_output(self, terminal: Terminal) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(terminal.read, STDOUT))
            if isinstance(terminal, SplitTerminal) and not self._tty:
                group.create_task(self._read(terminal.read_error, STDERR))
        self.facts.exit_code = await terminal.wait()
        self.facts.digest = self._sha256.hexdigest()

    async def _read(self, read: Callable[[], Awaitable[bytes]], stream: int) -> None:
        while data := await read():
            self._sha256.update(data)
            self._record(data)
            self.facts.bytes_out += len(data)
            view = memoryview(data)
            while view:
                count = min(len(view), CHUNK, await self._some_credit())
                self._credit -= count
                await self._relay.send(RelayData(stream, bytes(view[:count])))
                view = view[count:]

    async def _some_credit(self) -> int:
        while self._credit <= 0:
            self._room.clear()
            await self._room.wait()
        return self._credit
