"""What the Docker Engine streams: frames of two streams in one, records with a time, and lines (OB-07). Pure.

A frame is a byte for the stream, three of nothing, four for the length. With times asked for, each holds one record,
`TIME TEXT`; one that ends without a newline goes on in the next of its stream, with the same time.

A cursor holds for each stream the time of its last record and how many records had that time: `TIME+N TIME+N`.
"""

import datetime
import re
from typing import NamedTuple

from hostler.agent.containers.cri_logs import MAX_LINE, STREAMS
from hostler.agent.containers.runtime import Line
from hostler.base.errors import error

_HEADER = 8
_SLACK_S = 2  # a record of one stream may be written behind a later one of the other
_CURSOR = re.compile(r"(\S*)\+([0-9]{1,18}) (\S*)\+([0-9]{1,18})")
_STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\.([0-9]{1,9})Z")


class _Seen(NamedTuple):
    stamp: str = ""
    records: int = 0


class Frames:
    """Bytes in any pieces to frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        self._rest += data
        found = []
        while len(self._rest) >= _HEADER:
            end = _HEADER + int.from_bytes(self._rest[4:_HEADER])
            if len(self._rest) < end:
                break
            stream = "stderr" if self._rest[0] == 2 else "stdout"
            found.append((stream, bytes(self._rest[_HEADER:end])))
            del self._rest[:end]
        return found


class Lines:
    """Records to lines, those before the cursor left out."""

    def __init__(self, cursor: str = "") -> None:
        self._from = _parse(cursor)
        self._told = dict(self._from)
        self._now = dict.fromkeys(STREAMS, _Seen())
        self._parts: dict[str, list[bytes]] = {name: [] for name in STREAMS}

    @property
    def cursor(self) -> str:
        return " ".join(f"{self._told[name].stamp}+{self._told[name].records}" for name in STREAMS)

    @property
    def since(self) -> str:
        """Where the engine is asked to begin: Unix seconds; "" for the beginning."""
        return _since(max(seen.stamp for seen in self._told.values()))

    def take(self, stream: str, record: bytes) -> Line | None:
        stamp, _, text = record.partition(b" ")
        at, before = stamp.decode(errors="replace"), self._now[stream]
        now = self._now[stream] = _Seen(at, before.records + 1 if at == before.stamp else 1)
        if now <= self._from[stream]:
            return None
        parts = self._parts[stream]
        parts.append(text.removesuffix(b"\n"))
        whole = text.endswith(b"\n")
        if not whole and sum(map(len, parts)) < MAX_LINE:
            return None
        return self._line(stream, whole=whole)

    def finish(self) -> list[Line]:
        """What was begun and has no newline."""
        return [self._line(stream, whole=False) for stream in STREAMS if self._parts[stream]]

    def _line(self, stream: str, *, whole: bool) -> Line:
        data = b"".join(self._parts[stream])
        self._parts[stream] = []
        self._told[stream] = self._now[stream]
        return Line(stream, data.decode(errors="replace"), whole, self.cursor)


def _parse(cursor: str) -> dict[str, _Seen]:
    if not cursor:
        return dict.fromkeys(STREAMS, _Seen())
    found = _CURSOR.fullmatch(cursor)
    if found is None or any(stamp and not _STAMP.fullmatch(stamp) for stamp in found.group(1, 3)):
        raise error("invalid_cursor", f"{cursor[:80]!r} is no place in a log")
    return {"stdout": _Seen(found[1], int(found[2])), "stderr": _Seen(found[3], int(found[4]))}


def _since(stamp: str) -> str:
    found = _STAMP.fullmatch(stamp)
    if found is None:
        return ""
    seconds = int(datetime.datetime.fromisoformat(f"{found[1]}+00:00").timestamp())
    return f"{max(0, seconds - _SLACK_S)}.{found[2].ljust(9, '0')}"
