"""One end of a named pipe, or of a terminal, in asyncio's own loop."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

_PIECE = 64 * 1024


class Pipe:
    """A named one is open for both directions, so that opening it waits for nobody; its end is told by other means."""

    def __init__(self, place: Path | int) -> None:
        if isinstance(place, int):
            self._fd = place
            os.set_blocking(place, False)
        else:
            self._fd = os.open(place, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)

    @property
    def descriptor(self) -> int:
        """-1 once it is closed."""
        return self._fd

    async def read(self, ended: Callable[[], Awaitable[object]]) -> bytes:
        """What comes next; b"" once it has `ended` and everything was read."""
        while (data := self.take()) is None:
            if await Pipe.readable((self,), ended):
                return self.take() or b""
        return data

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._fd >= 0:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await self._writable()

    def control(self, request: int, argument: bytes) -> None:
        fcntl.ioctl(self._fd, request, argument)

    def take(self) -> bytes | None:
        """What is there; None for nothing yet, b"" for nothing any more."""
        if self._fd < 0:
            return b""
        try:
            return os.read(self._fd, _PIECE)
        except BlockingIOError:
            return None
        except OSError:  # a terminal whose other side is closed
            return b""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @staticmethod
    async def readable(pipes: "Sequence[Pipe]", ended: Callable[[], Awaitable[object]]) -> bool:
        """Until one can be read, or whether it has ended."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        watched = [pipe.descriptor for pipe in pipes if pipe.descriptor >= 0]
        for fd in watched:
            loop.add_reader(fd, settle, ready)
        try:
            async with asyncio.TaskGroup() as group:
                over = group.create_task(_until(ended))
                await asyncio.wait((ready, over), return_when=asyncio.FIRST_COMPLETED)
                done = over.done() and not ready.done()
                over.cancel()
            return done
        finally:
            for fd in watched:
                loop.remove_reader(fd)

    async def _writable(self) -> None:
        loop, fd = asyncio.get_running_loop(), self._fd
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(fd, settle, ready)
        try:
            await ready
        finally:
            loop.remove_writer(fd)


async def _until(ended: Callable[[], Awaitable[object]]) -> None:
    await ended()


def settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
