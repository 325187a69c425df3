"""What was written in a session, as lines of a log: characters that a terminal acts on are spelled out."""

import codecs
from collections.abc import Callable

LONGEST = 4096
_ACTIVE = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


class Transcript:
    """Args:
    line: takes each line; it redacts and bounds them.
    """

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def take(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + self._decode(data)).split("\n")
        for text in whole:
            self._say(text)
        while len(self._rest) > LONGEST:
            self._say(self._rest[:LONGEST])
            self._rest = self._rest[LONGEST:]

    def close(self) -> None:
        """The last line, which no newline ended."""
        self._rest += self._decode(b"", True)
        if self._rest:
            self._say(self._rest)
            self._rest = ""

    def _say(self, text: str) -> None:
        self._line(text.rstrip("\r").translate(_ACTIVE))
