"""What a command prints: read from its pipes as it comes, cut into lines, within limits."""

import asyncio
import codecs
import os
from collections.abc import Callable

KEPT_CHARACTERS = 64 * 1024  # of the end of each stream, for the step's outputs
LINE_CHARACTERS = 8 * 1024  # a longer line is handed on in pieces

MOST_READS = 32  # a pipe holds at most 1 MiB unless root made it larger

OnLine = Callable[[str, str], None]  # stream, line without its end


class Capture:
    """One stream of one command. `writer` goes to the child; bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, stream: str, limit: int, on_line: OnLine, loop: asyncio.AbstractEventLoop) -> None:
        self._stream, self._limit, self._on_line, self._loop = stream, limit, on_line, loop
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._taken = 0
        self._rest = ""
        self._kept = ""
        self.truncated = False
        loop.add_reader(self._reader, self._read)

    @property
    def kept(self) -> str:
        """The end of what was printed, at most `KEPT_CHARACTERS`."""
        return self._kept[-KEPT_CHARACTERS:]

    def release_writer(self) -> None:
        """The child has its own copy now."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def finish(self) -> None:
        """Takes what is still in the pipe, and no more: the process tree is gone."""
        for _ in range(MOST_READS):
            if self._reader < 0 or not self._read():
                break
        self._close_reader()
        self._feed(self._decoder.decode(b"", final=True))
        if self._rest:
            self._on_line(self._stream, self._rest)
        if self.truncated:
            self._on_line(self._stream, f"[output cut after {self._limit} bytes]")

    def drop(self) -> None:
        """Closes both ends without looking."""
        self.release_writer()
        self._close_reader()

    def _read(self) -> bool:
        try:
            data = os.read(self._reader, 65536)
        except BlockingIOError:
            return False
        if not data:
            self._close_reader()
            return False
        room = self._limit - self._taken
        if room > 0:
            self._feed(self._decoder.decode(data[:room]))
        self._taken += len(data)
        self.truncated = self._taken > self._limit
        return True

    def _feed(self, text: str) -> None:
        if not text:
            return
        self._kept = (self._kept + text)[-2 * KEPT_CHARACTERS :]
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit(line)
        while len(self._rest) > LINE_CHARACTERS:
            self._on_line(self._stream, self._rest[:LINE_CHARACTERS])
            self._rest = self._rest[LINE_CHARACTERS:]

    def _emit(self, line: str) -> None:
        while len(line) > LINE_CHARACTERS:
            self._on_line(self._stream, line[:LINE_CHARACTERS])
            line = line[LINE_CHARACTERS:]
        self._on_line(self._stream, line)

    def _close_reader(self) -> None:
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1
