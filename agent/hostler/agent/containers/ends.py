"""One end of a named pipe, or of a terminal, in asyncio's own loop."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

_PIECE = 64 * 1024


class Pipe:
    """Open for both directions, so that opening it waits for nobody and its end is told by other means."""

    def __init__(self, place: Path | int) -> None:
        if isinstance(place, int):
            self._fd = place
            os.set_blocking(place, False)
        else:
            self._fd = os.open(place, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)

    async def read(self, ended: Callable[[], Awaitable[object]]) -> bytes:
        """What comes next; b"" once it has `ended` and everything was read."""
        while True:
            data = self._piece()
            if data is not None:
                return data
            if await self._readable(ended):
                return self._piece() or b""

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await self._writable()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _piece(self) -> bytes | None:
        if self._fd < 0:
            return b""
        try:
            return os.read(self._fd, _PIECE)
        except BlockingIOError:
            return None
        except OSError:  # a terminal whose other side is closed
            return b""

    async def _readable(self, ended: Callable[[], Awaitable[object]]) -> bool:
        """Until something can be read, or whether it has ended."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _settle, ready)
        try:
            async with asyncio.TaskGroup() as group:
                over = group.create_task(_until(ended))
                await asyncio.wait((ready, over), return_when=asyncio.FIRST_COMPLETED)
                done = over.done() and not ready.done()
                over.cancel()
            return done
        finally:
            if self._fd >= 0:
                loop.remove_reader(self._fd)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._fd, _settle, ready)
        try:
            await ready
        finally:
            if self._fd >= 0:
                loop.remove_writer(self._fd)


async def _until(ended: Callable[[], Awaitable[object]]) -> None:
    await ended()


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
