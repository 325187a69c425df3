"""Log files as the Container Runtime Interface lays them down, read from a cursor on (OB-07).

A record is `TIME STREAM TAG TEXT`; tag `P` is a part of a line that goes on in the next record of its stream, `F` its
last part. A program that ends without a newline leaves a `P` behind. A file is turned away under the name `.1` when it
is full, so it is known by the time of its first record and not by its name.

A cursor holds a place for each stream, because a line of one may be written between two parts of a line of the other:
`FILE@OFFSET FILE@OFFSET`, stdout before stderr.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from hostler.agent.containers.following import Follower
from hostler.agent.containers.runtime import Line
from hostler.base.errors import error

STREAMS = ("stdout", "stderr")
MAX_LINE = 1 << 20  # a longer line is told in pieces
ROTATED = ".1"
_PIECE = 256 * 1024
_STAMP_BYTES = 64
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_TAIL = 1024
_CLOSING_TURNS, _CLOSING_PAUSE_S = 200, 0.005  # a second


class _Place(NamedTuple):
    """`order` counts the files in the order they are read."""

    order: int
    offset: int
    file: str


class LogReader:
    """One log, turned away or not. Call `read` until it has nothing; `finish` once nothing will come any more."""

    def __init__(self, path: Path, cursor: str = "") -> None:
        self._path = path
        self._cursor = _parse(cursor)
        self._from = dict.fromkeys(STREAMS, _Place(0, 0, ""))
        self._parts: dict[str, tuple[_Place, list[bytes]]] = {}
        self._fd = -1
        self._file, self._order, self._offset = "", 0, 0
        self._last = _Place(0, 0, "")  # after the last record: a file without one has no name yet

    def read(self) -> list[Line]:
        """The next whole lines; none when there are none yet."""
        lines: list[Line] = []
        while not lines and self._open():
            data = os.pread(self._fd, _PIECE, self._offset)
            end = data.rfind(b"\n") + 1
            if end:
                self._name(data)
                for record in data[: end - 1].split(b"\n"):  # a program's own \r ends none
                    lines += self._take(record)
            elif len(data) == _PIECE:
                self._offset += len(data)  # no record is that long: not ours to read
            elif not self._next():
                break
        return lines

    def finish(self) -> list[Line]:
        """What was begun and has no newline."""
        lines = []
        for stream in [name for name in STREAMS if name in self._parts]:
            _, parts = self._parts.pop(stream)
            lines.append(self._line(stream, b"".join(parts), whole=False))
        return lines

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _take(self, record: bytes) -> list[Line]:
        here = _Place(self._order, self._offset, self._file)
        self._offset += len(record) + 1
        self._last = _Place(self._order, self._offset, self._file)
        fields = record.split(b" ", 3)
        stream = fields[1].decode(errors="replace") if len(fields) == 4 else ""
        if stream not in STREAMS or here[:2] < self._from[stream][:2]:
            return []
        _, parts = self._parts.setdefault(stream, (here, []))
        parts.append(fields[3])
        whole = fields[2].split(b":")[0] == b"F"
        if not whole and sum(map(len, parts)) < MAX_LINE:
            return []
        del self._parts[stream]
        return [self._line(stream, b"".join(parts), whole=whole)]

    def _line(self, stream: str, data: bytes, *, whole: bool) -> Line:
        now = self._last
        self._from[stream] = now
        places = [self._parts[name][0] if name in self._parts else now for name in STREAMS]
        cursor = " ".join(f"{place.file}@{place.offset}" for place in places)
        return Line(stream, data.decode(errors="replace"), whole, cursor)

    def _open(self) -> bool:
        """The file with the earliest place of the cursor, or the oldest there is."""
        if self._fd >= 0:
            return True
        files = [path for path in (self._turned_away, self._path) if path.exists()]
        names = [_first_stamp(path) for path in files]
        if not files:
            return False
        for stream, (file, offset) in self._cursor.items():
            if file and file in names:
                self._from[stream] = _Place(names.index(file), offset, file)
        start = min(self._from.values()) if self._cursor else _Place(0, 0, "")
        self._order, self._offset = start.order, start.offset
        self._cursor = {}
        return self._switch(files[start.order])

    def _switch(self, path: Path) -> bool:
        try:
            fd = os.open(path, _READING)
        except FileNotFoundError:
            return False
        self.close()
        self._fd, self._file = fd, ""
        return True

    def _next(self) -> bool:
        """The file after this one, once there is one and this one has ended: whoever writes has left it then."""
        mine = os.fstat(self._fd)
        path = self._path if mine.st_nlink else self._turned_away  # that took its place meanwhile
        newer = _stat(path)
        if newer is None or os.path.samestat(newer, mine) or os.pread(self._fd, _PIECE, self._offset).count(b"\n"):
            return False
        if not self._switch(path):
            return False
        self._order, self._offset = self._order + 1, 0
        return True

    def _name(self, data: bytes) -> None:
        if not self._file:
            start = data if self._offset == 0 else os.pread(self._fd, _STAMP_BYTES, 0)
            self._file = start[:_STAMP_BYTES].split(b" ")[0].decode(errors="replace")

    @property
    def _turned_away(self) -> Path:
        return self._path.with_name(self._path.name + ROTATED)


def turn_away(path: Path, most: int) -> bool:
    """Whether its writer has to open a new file: it is too long, or a crash came before the new one was opened."""
    try:
        if not most or path.stat().st_size <= most:
            return False
        path.rename(path.with_name(path.name + ROTATED))
    except FileNotFoundError:
        pass
    return True


async def written(path: Path) -> None:
    """Until nobody has it open for writing: containerd tells an end a moment before its last line is on disk."""
    with contextlib.suppress(OSError):
        fd = os.open(path, _READING)
        try:
            for _ in range(_CLOSING_TURNS):
                try:
                    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)  # not to be had beside a writer
                    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                    return
                except BlockingIOError:
                    await asyncio.sleep(_CLOSING_PAUSE_S)
        finally:
            os.close(fd)


def ends_with(path: Path, words: bytes) -> bool:
    """Whether the last line of a log has these words in it."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _STAMP_BYTES - MAX_TAIL))
            return words in file.read().rstrip(b"\n").rpartition(b"\n")[2]
    except OSError:
        return False


async def lines(
    reader: LogReader, ended: Callable[[], Awaitable[bool]], follower: Follower | None = None
) -> AsyncIterator[Line]:
    """All that is there; with a follower, all that comes until the end, of which it hears or which is asked for."""
    try:
        while True:
            over = await (follower.over(ended) if follower else ended())  # before reading: what came before it is read
            some = False
            while found := reader.read():
                some = True
                for line in found:
                    yield line
            if over:
                for line in reader.finish():
                    yield line
            if over or follower is None:
                return
            await follower.pause(read_some=some)
    finally:
        reader.close()


def _parse(cursor: str) -> dict[str, tuple[str, int]]:
    if not cursor:
        return {}
    places = [place.rpartition("@") for place in cursor.split(" ")]
    if len(places) != len(STREAMS) or not all(offset.isdecimal() for _, _, offset in places):
        raise error("invalid_cursor", f"{cursor[:80]!r} is no place in a log")
    return {stream: (file, int(offset)) for stream, (file, _, offset) in zip(STREAMS, places, strict=True)}


def _first_stamp(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_STAMP_BYTES).split(b" ")[0].decode(errors="replace")
    except FileNotFoundError:
        return ""


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
