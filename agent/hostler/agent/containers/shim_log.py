"""Writes what a program says as CRI lays it down, in two files of half the allowed size. Standard library only."""

import datetime
import os
import time

STREAMS = ("stdout", "stderr")
_PART = 16 * 1024  # a longer line is written in parts
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = "task.log"


class Log:
    def __init__(self, directory: int, most: int) -> None:
        self._directory = directory
        self._most = max(1, most // 2)
        self._rest = {name: bytearray() for name in STREAMS}
        self._fd = -1
        self._size = 0
        self._last = 0

    def write(self, stream: str, data: bytes) -> None:
        """Whole lines, and parts of those that are longer than any should be; the rest is kept for the next call."""
        rest = self._rest[stream]
        rest += data
        *whole, last = bytes(rest).split(b"\n")
        for line in whole:
            for start in range(0, max(1, len(line)), _PART):
                part = line[start : start + _PART]
                self._record(stream, b"F" if start + _PART >= len(line) else b"P", part)
        while len(last) >= _PART:
            self._record(stream, b"P", last[:_PART])
            last = last[_PART:]
        rest[:] = last

    def close(self) -> None:
        """A line that has no end is told as it is."""
        for stream, rest in self._rest.items():
            if rest:
                self._record(stream, b"P", bytes(rest))
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _record(self, stream: str, tag: bytes, text: bytes) -> None:
        record = b" ".join((self._stamp(), stream.encode(), tag, text)) + b"\n"
        try:
            self._turn(len(record))
            self._size += os.write(self._fd, record)
        except OSError:
            return  # a full disk costs what is said, never the program

    def _turn(self, more: int) -> None:
        if self._fd < 0:
            self._fd = os.open(_NAME, _OPEN, 0o600, dir_fd=self._directory)
            self._size = os.fstat(self._fd).st_size
        if self._size and self._size + more > self._most:
            os.rename(_NAME, f"{_NAME}.1", src_dir_fd=self._directory, dst_dir_fd=self._directory)
            os.close(self._fd)
            self._fd = -1
            self._turn(0)

    def _stamp(self) -> bytes:
        """Never the same twice: a file is known by its first one."""
        self._last = max(time.time_ns(), self._last + 1)
        seconds, nanos = divmod(self._last, 1_000_000_000)
        return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z".encode()
