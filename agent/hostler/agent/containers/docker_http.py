"""HTTP/1.1 over the socket of an engine on this node, as much of it as the engine speaks.

A step makes half a dozen calls to its engine, one after the other. A general client takes a millisecond for each, which
is most of what a step costs beyond its engine (P9); this one takes a fifth of that.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

PIECE = 256 * 1024
MOST = 64 << 20  # of an answer that is taken whole
NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_BODY = (101, 204, 304)
_BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)  # whatever may go wrong with a connection


class Broken(Exception):
    """The engine is away, or went away, or says what is no HTTP."""


class Head(NamedTuple):
    """What an answer begins with."""

    status: int
    length: int  # of its body; -1 where its chunks or its end say so
    chunked: bool
    stays: bool  # the connection, for another request


class Connection:
    """One after the other: `ask`, all of `body`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.whole = False  # the last answer was read to its end

    @property
    def is_fit(self) -> bool:
        """For another request."""
        return self.whole and not (self.reader.at_eof() or self.writer.is_closing())

    async def ask(self, method: str, target: str, content: bytes = b"", headers: Mapping[str, str] = NOTHING) -> Head:
        """Raises `Broken`, and is closed then."""
        try:
            return await self._asked(method, target, content, headers)
        except BaseException as err:
            self.writer.close()
            if isinstance(err, _BROKEN):
                raise Broken(str(err)) from err
            raise

    async def _asked(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> Head:
        said = {"Host": "docker", "Content-Length": str(len(content)), **headers}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
        if not all(line.isascii() and line.isprintable() for line in lines):
            raise ValueError("a request is printable ASCII")
        self.whole = False
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await self.writer.drain()
        return head_of(await self.reader.readuntil(b"\r\n\r\n"))

    async def body(self, head: Head) -> AsyncIterator[bytes]:
        """In the pieces that it comes in. Raises `Broken`."""
        try:
            async for piece in self._pieces(head):
                yield piece
        except _BROKEN as err:
            raise Broken(str(err)) from err
        self.whole = head.stays

    async def _pieces(self, head: Head) -> AsyncIterator[bytes]:
        if head.chunked:
            while left := int((await self.reader.readuntil(b"\r\n")).partition(b";")[0], 16):
                async for piece in self._exactly(left):
                    yield piece
                await self.reader.readexactly(2)
            while await self.reader.readuntil(b"\r\n") != b"\r\n":
                pass
        elif head.length >= 0:
            async for piece in self._exactly(head.length):
                yield piece
        else:
            while piece := await self.reader.read(PIECE):
                yield piece

    async def _exactly(self, left: int) -> AsyncIterator[bytes]:
        while left > 0:
            piece = await self.reader.read(min(left, PIECE))
            if not piece:
                raise EOFError("the engine broke off")
            left -= len(piece)
            yield piece


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
        head = await connection.ask(method, target, content, headers)
        try:
            yield head.status, connection.body(head)
        finally:
            if connection.is_fit:
                self._free.append(connection)
            else:
                connection.writer.close()

    async def _fit(self) -> Connection:
        while self._free:
            kept = self._free.pop()
            if kept.is_fit:
                return kept
            kept.writer.close()
        return await self.fresh()


def head_of(data: bytes) -> Head:
    """Raises `ValueError` for what is no answer of HTTP/1.1."""
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise ValueError("the engine does not speak HTTP/1.1")
    status = int(rest[:3])
    said = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    chunked = said.get("transfer-encoding", "").lower() == "chunked"
    length = 0 if status in _NO_BODY else int(said.get("content-length", "-1"))
    stays = version == "HTTP/1.1" and said.get("connection", "").lower() != "close" and (chunked or length >= 0)
    return Head(status, length, chunked and status not in _NO_BODY, stays)
