"""Connections to the engine on this node, whose HTTP/1.1 is h11's.

A step makes half a dozen calls to its engine, one after the other. A general client takes two milliseconds for each,
much of what a step costs beyond its engine (P9); h11 with a connection that is kept takes a tenth of that.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import h11

PIECE = 256 * 1024
MOST = 64 << 20  # of an answer that is taken whole
NOTHING: Mapping[str, str] = MappingProxyType({})
_BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, h11.ProtocolError)


class Broken(Exception):
    """The engine is away, or went away, or says what is no HTTP."""


class Connection:
    """One after the other: `ask`, all of `body`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    def is_fit(self) -> bool:
        """For another request: the last answer was read to its end, and neither side has hung up."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return self._http.our_state is h11.IDLE and not (self.reader.at_eof() or self.writer.is_closing())

    async def ask(self, method: str, target: str, content: bytes = b"", headers: Mapping[str, str] = NOTHING) -> int:
        """The answer's status; its head is all that was taken from `reader`. Raises `Broken`, and is closed then."""
        try:
            return await self._asked(method, target, content, headers)
        except BaseException as err:
            self.writer.close()
            if isinstance(err, _BROKEN):
                raise Broken(str(err)) from err
            raise

    async def _asked(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> int:
        said = {"Host": "docker", "Content-Length": str(len(content)), **headers}
        request = h11.Request(method=method, target=target, headers=list(said.items()))
        events = (request, h11.Data(data=content), h11.EndOfMessage())
        self.writer.write(b"".join([self._http.send(event) or b"" for event in events]))
        await self.writer.drain()
        while True:
            self._http.receive_data(await self.reader.readuntil(b"\r\n\r\n"))
            event = self._http.next_event()
            if isinstance(event, h11.Response | h11.InformationalResponse) and event.status_code not in (100, 102, 103):
                return event.status_code

    async def body(self) -> AsyncIterator[bytes]:
        """In the pieces that it comes in. Raises `Broken`."""
        try:
            while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    self._http.receive_data(await self.reader.read(PIECE))
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
        except _BROKEN as err:
            raise Broken(str(err)) from err


class Connections:
    """To one socket, as many as are needed at once; those that are free are kept."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._free: list[Connection] = []

    def close(self) -> None:
        for each in self._free:
            each.writer.close()
        self._free.clear()

    async def fresh(self) -> Connection:
        """Raises `Broken`."""
        try:
            return Connection(*await asyncio.open_unix_connection(self._socket))
        except OSError as err:
            raise Broken(str(err)) from err

    async def answer(
        self, method: str, target: str, content: bytes = b"", headers: Mapping[str, str] = NOTHING
    ) -> tuple[int, bytes]:
        """Status and whole body. Raises `Broken`."""
        async with self.asked(method, target, content, headers) as (status, pieces):
            body = bytearray()
            async for piece in pieces:
                body += piece
                if len(body) > MOST:
                    raise Broken(f"an answer of the engine is longer than {MOST} bytes")
            return status, bytes(body)

    @asynccontextmanager
    async def asked(
        self, method: str, target: str, content: bytes = b"", headers: Mapping[str, str] = NOTHING
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """Status, and the body as it comes. A connection is used again once its answer was read to the end.

        Nothing is asked twice here: the engine may have done what it did not answer. Raises `Broken`.
        """
        connection = await self._fit()
        status = await connection.ask(method, target, content, headers)
        try:
            yield status, connection.body()
        finally:
            if connection.is_fit():
                self._free.append(connection)
            else:
                connection.writer.close()

    async def _fit(self) -> Connection:
        while self._free:
            kept = self._free.pop()
            if kept.is_fit():
                return kept
            kept.writer.close()
        return await self.fresh()
