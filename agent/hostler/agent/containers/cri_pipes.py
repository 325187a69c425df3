"""Pipes that containers speak through, held open so that what is in them outlives containerd.

The other ends are a container's shim, which writes, and containerd, which reads. A pipe that nobody holds takes what
is in it along: a container that ends while containerd is away would lose its last words. So its keeper holds each one
as one reader more, and reads nothing for as long as containerd does. Once the writers are gone and nobody reads any
more, what is left goes to the end of the log, as CRI lays it down. Each byte has one reader, so no line is told twice.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import stat
import struct
import termios
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from hostler.agent.containers.ends import settle

_SLOW_S = 2.0  # a containerd that lives and has not read within this will not
_LOOK_S = 0.005
_MOST = 1 << 20  # no pipe holds more


class _Held(NamedTuple):
    container: str
    stream: str
    log: Path
    place: tuple[int, int]  # device and inode: a path may come to mean another one


class Pipes:
    """Belongs to the loop that `run` is in.

    Args:
        is_read: whether whoever should read them lives.
    """

    def __init__(self, is_read: Callable[[], bool]) -> None:
        self._is_read = is_read
        self._ended = select.epoll()
        self._held: dict[int, _Held] = {}
        self._changed = asyncio.Event()

    def hold(self, container: str, pipes: Iterable[tuple[str, Path]], log: Path) -> None:
        """Stream and path of each; one that is held, gone or no pipe is left out."""
        for stream, path in pipes:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            said = os.fstat(fd)
            place = said.st_dev, said.st_ino
            if not stat.S_ISFIFO(said.st_mode) or any(each.place == place for each in self._held.values()):
                os.close(fd)
                continue
            self._held[fd] = _Held(container, stream, log, place)
            self._ended.register(fd, 0)  # the end of the last writer is told unasked

    def holds(self, container: str = "") -> bool:
        """Any of this one, or of all."""
        return any(not container or each.container == container for each in self._held.values())

    def let_go(self, container: str) -> None:
        """Those whose writers are gone. For one that was started: before that, whoever reads would see an end.

        The kernel tells a reader of the end of writers only where it has seen one: this is one, for a moment.
        """
        for fd in [fd for fd, each in self._held.items() if each.container == container]:
            _end_writers(fd)

    def let_removed_go(self) -> None:
        """Those that containerd has removed: nobody can open them any more."""
        for fd in list(self._held):
            if not os.fstat(fd).st_nlink:
                _end_writers(fd)

    async def settled(self, container: str) -> None:
        """Until everything that it said is read, or has come to its log. It has to have ended."""
        self.let_go(container)
        while self.holds(container):
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                ready: asyncio.Future[None] = loop.create_future()
                loop.add_reader(self._ended.fileno(), settle, ready)
                try:
                    await ready
                finally:
                    loop.remove_reader(self._ended.fileno())
                for fd, _ in self._ended.poll(0):
                    self._ended.unregister(fd)
                    group.create_task(self._let_go(fd))

    async def _let_go(self, fd: int) -> None:
        begun = time.monotonic()
        while _pending(fd):
            if self._is_read() and time.monotonic() - begun < _SLOW_S:
                await asyncio.sleep(_LOOK_S)
            else:
                with contextlib.suppress(OSError):  # a disk that takes no log ends no keeper
                    append(self._held[fd].log, self._held[fd].stream, os.read(fd, _MOST))
        os.close(fd)
        del self._held[fd]
        self._changed.set()


def append(log: Path, stream: str, data: bytes) -> None:
    """Records of CRI in one piece; nothing where the log's directory is gone, because nobody will ask for it."""
    now_ns = time.time_ns()
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ns // 1_000_000_000))
    begin = f"{second}.{now_ns % 1_000_000_000:09}Z {stream} ".encode()
    whole, _, rest = data.rpartition(b"\n")
    records = [begin + b"F " + line + b"\n" for line in whole.split(b"\n")] if b"\n" in data else []
    records += [begin + b"P " + rest + b"\n"] if rest else []
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        with os.fdopen(fd, "wb", buffering=0) as file:
            file.write(b"".join(records))


def _end_writers(fd: int) -> None:
    """The end of the last one is told, if it has gone; nothing while another one writes."""
    with contextlib.suppress(OSError):
        os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))


def _pending(fd: int) -> int:
    found: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
    return found
