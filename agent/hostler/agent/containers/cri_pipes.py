"""Pipes that containers speak through, and what is said in them on its way to the logs of CRI (OB-07).

A containerd that is killed between reading and writing takes along what it had read, up to 32 KiB of each stream. So
the keeper of a container puts pipes of its own in the place of containerd's before the start, by links that the
container's shim follows, and brings what comes to the log itself. Each byte has one reader. A shim holds its pipes for
reading too: a container whose keeper died waits for the next one once a pipe is full, and nothing is lost.
"""

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hostler.agent.containers.cri_noted import STREAMS, pipe_of

_PIECE = 64 * 1024  # a record of it is shorter than any that a reader of logs takes
_MOST = 128 << 20  # of a log that nobody turns away, because its agent is down: the agent itself does so far earlier
_HOLDING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class _Held(NamedTuple):
    container: str
    stream: str
    log: Path


class Pipes:
    """Belongs to the loop that is running.

    Args:
        place: the directory of them; root's alone.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._held: dict[int, _Held] = {}
        self._changed = asyncio.Event()

    def take(self, container: str, pipes: Iterable[tuple[str, Path]], log: Path) -> None:
        """Puts links to ours in the place of containerd's, of which stream and path are given, until it is started."""
        for stream, path in pipes:
            with contextlib.suppress(OSError):  # it speaks to containerd then
                own = pipe_of(self._place, container, stream)
                if not stat.S_ISFIFO(path.lstat().st_mode):
                    continue
                if not own.exists():
                    os.mkfifo(own, 0o600)
                self._hold(_Held(container, stream, log))
                link = path.with_name(f"{path.name}.ours")
                link.unlink(missing_ok=True)
                link.symlink_to(own)
                link.rename(path)

    def hold(self, container: str, log: Path) -> None:
        """Those that another keeper has made for it."""
        for stream in STREAMS:
            with contextlib.suppress(OSError):
                self._hold(_Held(container, stream, log))

    def holds(self, container: str = "") -> bool:
        """Any of this one, or of all."""
        return any(not container or each.container == container for each in self._held.values())

    def let_go(self, container: str) -> None:
        """Those whose writers are gone. For one that was started: before that, this would be its end.

        The kernel tells a reader of the end of writers only where it has seen one: this is one, for a moment.
        """
        for fd in [fd for fd, each in self._held.items() if each.container == container]:
            _end_writers(fd)

    def let_removed_go(self) -> None:
        """Those of removed containers: nobody can open them any more."""
        for fd in list(self._held):
            if not os.fstat(fd).st_nlink:
                _end_writers(fd)

    async def settled(self, container: str) -> None:
        """Until everything that it said has come to its log. It has to have ended."""
        self.let_go(container)
        while self.holds(container):
            self._changed.clear()
            await self._changed.wait()

    def _hold(self, wanted: _Held) -> None:
        if wanted in self._held.values():
            return
        fd = os.open(pipe_of(self._place, wanted.container, wanted.stream), _HOLDING)
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileNotFoundError(wanted.container)
        self._held[fd] = wanted
        self._loop.add_reader(fd, self._read, fd)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return
        if data:
            with contextlib.suppress(OSError):  # a disk that takes no log ends no keeper, and no container
                append(self._held[fd].log, self._held[fd].stream, data)
            return
        self._loop.remove_reader(fd)
        os.close(fd)
        del self._held[fd]
        self._changed.set()


def append(log: Path, stream: str, data: bytes) -> None:
    """Records of CRI in one piece; nothing where the log's directory is gone, because nobody will ask for it.

    By its name each time: whoever has turned the log away finds that it was left once there is a new one. One that has
    grown too long is turned away here: a task fills no disk while its agent is down.
    """
    now_ns = time.time_ns()
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ns // 1_000_000_000))
    begin = f"{second}.{now_ns % 1_000_000_000:09}Z {stream} ".encode()
    whole, newline, rest = data.rpartition(b"\n")
    records = begin + b"F " + whole.replace(b"\n", b"\n" + begin + b"F ") + b"\n" if newline else b""
    records += begin + b"P " + rest + b"\n" if rest else b""
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(log, _WRITING, 0o640)
        try:
            before = os.fstat(fd).st_size
            if os.write(fd, records) != len(records):
                os.ftruncate(fd, before)  # half a record would spoil the next one
            if before > _MOST:
                log.rename(log.with_name(log.name + ".1"))
        finally:
            os.close(fd)


def give_back(pipes: Iterable[tuple[str, Path]]) -> bool:
    """Takes the links away: a containerd that comes back would read through them too.

    Whether there are pipes of containerd itself: it was killed and made new ones just before the start.
    """
    theirs = False
    for _, path in pipes:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        else:
            theirs = True
    return theirs


def _end_writers(fd: int) -> None:
    """The end of the last one is told, if it has gone; nothing while another one writes."""
    with contextlib.suppress(OSError):
        os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
