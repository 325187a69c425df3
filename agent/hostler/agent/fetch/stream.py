"""The body of an answer, from the socket to the disk: four stages, a thread each.

    free ─▶ reader ─▶ hasher ─▶ writer ─▶ free        (the same few buffers go round)
                                    └─▶ syncer         (marks, one at a time, newest wins)

Decryption, SHA-256, write(2) and fdatasync(2) all let go of the interpreter lock, so that they
overlap; the sum of their times becomes the longest of them.
"""

import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.agent.fetch.budget import Transient
from hostler.agent.fetch.checkpoint import Mark
from hostler.agent.fetch.pace import Pace, Parts
from hostler.base.errors import HostlerError, error

BUFFERS = 12
BUFFER_BYTES = 512 * 1024


class Body(Protocol):
    def read_into(self, view: memoryview) -> int: ...


@dataclass
class Gauge:
    """What other threads may look at while a transfer runs. One writer for each field.

    Attributes:
        received: bytes off the network in this transfer, for the rate.
        written: offset up to which the file is written, for progress.
        waits_for_disk: the reader has no free buffer; the source is not to blame.
    """

    received: int = 0
    written: int = 0
    waits_for_disk: bool = False


@dataclass
class Grown:
    """The partial file and its hash: between transfers both stand at `offset`."""

    descriptor: int
    offset: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def empty(self) -> None:
        try:
            os.ftruncate(self.descriptor, 0)
            os.lseek(self.descriptor, 0, os.SEEK_SET)
        except OSError as err:
            raise disk_error(err) from err
        self.offset, self.digest = 0, hashlib.sha256()


@dataclass(frozen=True)
class Limits:
    """Of one body.

    Attributes:
        length: bytes the answer announces, -1 when it does not.
        size: exact length the whole must have, 0 when any.
        most: bytes the whole may have, 0 for no limit.
        free: bytes that may still be used on the file system: raises `disk_full` when there are none.
        most_per_s: bytes a second, 0 for no limit.
        chunk_bytes, chunks: SHA-256 of each part of the whole, in order; none for no such check.
    """

    length: int = -1
    size: int = 0
    most: int = 0
    free: Callable[[], None] = lambda: None
    mark_bytes: int = 67_108_864
    mark_seconds: float = 2.0
    most_per_s: int = 0
    chunk_bytes: int = 0
    chunks: tuple[str, ...] = ()


class _Chunk:
    """A buffer on its way round."""

    __slots__ = ("filled", "mark", "room")

    def __init__(self) -> None:
        self.room = memoryview(bytearray(BUFFER_BYTES))
        self.filled = 0
        self.mark: Mark | None = None


_Queue = queue.SimpleQueue[_Chunk | None]


class Stream:
    """Takes one body into the file. After `run`, whatever its end, file and hash agree."""

    def __init__(self, grown: Grown, gauge: Gauge, limits: Limits, marked: Callable[[Mark], None]) -> None:
        self._grown, self._gauge, self._limits, self._marked = grown, gauge, limits, marked
        self._free: _Queue = queue.SimpleQueue()
        self._to_hash: _Queue = queue.SimpleQueue()
        self._to_write: _Queue = queue.SimpleQueue()
        self._to_sync: queue.SimpleQueue[Mark | None] = queue.SimpleQueue()
        self._disk_error: OSError | None = None
        self._wrong: HostlerError | None = None
        self._pace = Pace(limits.most_per_s)

    def run(self, body: Body) -> None:
        """Raises `Transient` (cut), `too_large`, `size_mismatch`, `disk_full` or `file_error`."""
        for _ in range(BUFFERS):
            self._free.put(_Chunk())
        stages = [
            threading.Thread(target=stage, name=f"fetch-{name}", daemon=True)
            for name, stage in (("hash", self._hash), ("write", self._write), ("sync", self._sync))
        ]
        for stage in stages:
            stage.start()
        try:
            self._read(body)
        finally:
            self._to_hash.put(None)
            for stage in stages:
                stage.join()
            self._gauge.waits_for_disk = False
        self._raise_disk_error()

    def _read(self, body: Body) -> None:
        limits, offset = self._limits, self._grown.offset
        left = limits.length
        while left != 0:
            chunk = self._buffer()
            ended = self._fill(chunk, body, left)
            if chunk.filled:
                offset += chunk.filled
                left -= chunk.filled if left > 0 else 0
                self._refuse_excess(offset)
                self._to_hash.put(chunk)
            if ended:
                break
        if left > 0:
            raise Transient(f"the source cut the body {left} bytes before its end")
        if limits.size and offset < limits.size:
            raise error("size_mismatch", f"the source has {offset} bytes, not {limits.size}")

    def _buffer(self) -> _Chunk:
        try:
            chunk = self._free.get_nowait()
        except queue.Empty:
            self._gauge.waits_for_disk = True
            chunk = self._free.get()
            self._gauge.waits_for_disk = False
        self._raise_disk_error()
        assert chunk is not None
        chunk.filled, chunk.mark = 0, None
        return chunk

    def _fill(self, chunk: _Chunk, body: Body, left: int) -> bool:
        """Fills the buffer, or what is `left`; True at the end of the body. A slow source hands on
        what it has after a while, so that progress is seen and a crash loses little."""
        room = chunk.room if left < 0 else chunk.room[: min(left, BUFFER_BYTES)]
        started = time.monotonic()
        while chunk.filled < len(room):
            try:
                count = body.read_into(room[chunk.filled :])
            except Transient:
                self._to_hash.put(chunk)  # what arrived before the cut is kept
                raise
            if count == 0:
                return True
            chunk.filled += count
            self._gauge.received += count
            self._pace.took(count)
            if time.monotonic() - started > 0.25:
                break
        return False

    def _refuse_excess(self, offset: int) -> None:
        limits = self._limits
        if limits.most and offset > limits.most:
            raise error("too_large", f"the source sends more than the {limits.most} bytes allowed")
        if limits.size and offset > limits.size:
            raise error("size_mismatch", f"the source sends more than the {limits.size} bytes expected")

    def _hash(self) -> None:
        digest, offset = self._grown.digest, self._grown.offset
        parts = Parts(self._limits.chunk_bytes, self._limits.chunks, offset)
        marked, when = offset, time.monotonic()
        while (chunk := self._to_hash.get()) is not None:
            digest.update(chunk.room[: chunk.filled])
            try:
                if self._wrong is None:  # the first wrong part is the one to name
                    parts.update(chunk.room[: chunk.filled])
            except HostlerError as err:
                self._wrong = err
            offset += chunk.filled
            due = time.monotonic() - when >= self._limits.mark_seconds
            if offset > marked and (due or offset - marked >= self._limits.mark_bytes):
                chunk.mark = Mark(offset, digest.copy().hexdigest())
                marked, when = offset, time.monotonic()
            self._to_write.put(chunk)
        self._to_write.put(None)

    def _write(self) -> None:
        grown = self._grown
        while (chunk := self._to_write.get()) is not None:
            if self._disk_error is None:
                try:
                    _write_all(grown.descriptor, chunk.room[: chunk.filled])
                    grown.offset += chunk.filled
                    self._gauge.written = grown.offset
                except OSError as err:
                    self._disk_error = err
            if chunk.mark is not None and self._disk_error is None:
                self._to_sync.put(chunk.mark)
            self._free.put(chunk)
        self._to_sync.put(None)

    def _sync(self) -> None:
        """A mark is told only once the disk holds everything before it (K7)."""
        while (mark := self._to_sync.get()) is not None:
            while not self._to_sync.empty():
                newer = self._to_sync.get()
                if newer is None:
                    self._settle(mark)
                    return
                mark = newer
            self._settle(mark)

    def _settle(self, mark: Mark) -> None:
        try:
            os.fdatasync(self._grown.descriptor)
            self._limits.free()
        except OSError as err:
            self._disk_error = err
            return
        except HostlerError as err:
            self._disk_error = OSError(28, err.message)
            return
        self._marked(mark)

    def _raise_disk_error(self) -> None:
        if self._wrong is not None:
            raise self._wrong
        err = self._disk_error
        if err is not None:
            raise disk_error(err) from err


def disk_error(err: OSError) -> HostlerError:
    """`disk_full` for no space and no quota, `file_error` for the rest."""
    if err.errno in (28, 122):
        return error("disk_full", f"the partial file cannot grow: {err.strerror}")
    return error("file_error", f"the partial file cannot be written: {err.strerror}")


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[os.write(descriptor, view) :]
