"""Connections to ports of tasks: each is a relay with a `task.forward` behind it, and stays open for the next request.

    exchange ──▶ Line ──▶ Relay ◀──gRPC, opened by the agent── a signed task ──▶ the task's port     (TE-22)

A line is one principal's, to one port of one attempt: it is never lent to another, nor to a later attempt.
"""

import asyncio
from typing import NamedTuple

import h11

from hostler.base.errors import HostlerError, error
from hostler.control.rpc.relays import CLIENT, Relay, Relays
from hostler.wire.relay import STDIN, RelayData, RelayEnd, RelayWindow

OPEN_S = 10.0  # from the signed task to an open connection
IDLE_S = 15.0  # for which one waits for its next request
LAST_S = 3.0  # for a task to close what is closed towards it
MOST_OF_ONE = 8  # of a principal's, so that its terminals find room as well
MAX_HEAD = 65_536


class Wanted(NamedTuple):
    owner: str
    project_id: str
    task_id: str
    attempt_uid: str
    port: int


class Line:
    """Attributes:
    http: where the conversation stands; nothing that breaks HTTP/1.1 passes it.
    moved: bytes both ways.
    """

    def __init__(self, wanted: Wanted, relay: Relay) -> None:
        self.wanted, self.relay = wanted, relay
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self.moved = 0
        self._out = bytearray()
        self._credit = 0
        self._room = asyncio.Event()

    async def opened(self) -> None:
        """Raises `endpoint_unreachable`, `endpoint_silent`."""
        try:
            async with asyncio.timeout(OPEN_S):
                first = await self.relay.take()
        except TimeoutError as err:
            raise error("endpoint_silent", f"the task's node opened no connection within {OPEN_S:.0f} s") from err
        if not isinstance(first, RelayWindow):
            raise _ended(first if isinstance(first, RelayEnd) else RelayEnd())
        self._credit += first.bytes

    async def receive(self) -> bytes:
        """What the task says next; b"" when it says no more. Raises `endpoint_unreachable`."""
        while True:
            frame = await self.relay.take()
            if isinstance(frame, RelayWindow):
                self._credit += frame.bytes
                self._room.set()
            elif isinstance(frame, RelayData):
                self.moved += len(frame.data)
                return frame.data
            elif isinstance(frame, RelayEnd):
                if frame.error_code:
                    raise _ended(frame)
                return b""

    def put(self, data: bytes) -> None:
        self._out += data

    async def flush(self) -> None:
        """Until the task has room for all of it; may be given up and called again."""
        while self._out:
            while self._credit <= 0:
                self._room.clear()
                await self._room.wait()
            data = bytes(self._out[: self._credit])
            del self._out[: len(data)]
            self._credit -= len(data)
            self.moved += len(data)
            self.relay.input(STDIN, data)


class Lines:
    """Those that are open. Nothing runs here: relays end by themselves, and a timer what waits too long."""

    def __init__(self, relays: Relays, idle_s: float = IDLE_S) -> None:
        self.quiet_s = relays.idle_s
        self._relays, self._idle_s = relays, idle_s
        self._open: set[Line] = set()
        self._idle: dict[Wanted, list[Line]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def idle(self, wanted: Wanted) -> Line | None:
        """One that waits for its next request."""
        while waiting := self._idle.get(wanted):
            line = waiting.pop()
            if line.relay.is_quiet:
                return line
            self.close(line)
        return None

    def begin(self, wanted: Wanted, node_id: str) -> Line:
        """Raises `rate_limited`."""
        own = [line for line in self._open if line.wanted.owner == wanted.owner]
        if len(own) >= MOST_OF_ONE:
            spare = next((line for line in own if line in self._idle.get(line.wanted, ())), None)
            if spare is None:
                raise error("rate_limited", f"{len(own)} connections to endpoints are busy for you already")
            self._retire(spare)
        relay = self._relays.make(node_id, wanted.project_id, wanted.owner)
        relay.attach(CLIENT)
        line = Line(wanted, relay)
        self._open.add(line)
        return line

    def give_back(self, line: Line) -> None:
        """After a whole exchange."""
        line.http.start_next_cycle()
        self._idle.setdefault(line.wanted, []).append(line)
        asked = line.moved
        asyncio.get_running_loop().call_later(self._idle_s, self._expire, line, asked)

    def _expire(self, line: Line, moved: int) -> None:
        if line.moved == moved and line in self._idle.get(line.wanted, ()):
            self._retire(line)

    def _retire(self, line: Line) -> None:
        """Says that nothing more comes, so that the task and the operation behind it end as they should."""
        self._forget(line)
        line.relay.end_input()
        asyncio.get_running_loop().call_later(LAST_S, self._relays.drop, line.relay)

    def close(self, line: Line) -> None:
        self._forget(line)
        self._relays.drop(line.relay, message="the connection is not used any more")

    def _forget(self, line: Line) -> None:
        waiting = self._idle.get(line.wanted, [])
        if line in waiting:
            waiting.remove(line)
        if not waiting:
            self._idle.pop(line.wanted, None)
        self._open.discard(line)


def _ended(frame: RelayEnd) -> HostlerError:
    return error("endpoint_unreachable", frame.message or "the task has closed the connection")
