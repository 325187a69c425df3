"""Relays: two streams that were opened towards us, joined byte for byte, each end held to what the other granted.

    client ──WebSocket──▶ api.routes.relays ──▶ Relay ◀── node_service ◀──gRPC, opened by the agent── a signed task

A relay belongs to one principal and one node, is good for one session, and is nowhere but in this process: when it
ends, what ran behind it ends.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import Any

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.ids import new_id
from hostler.base.logs import get_logger
from hostler.control.metrics import Metrics
from hostler.wire.relay import (
    BEAT_S,
    CHUNK,
    SILENT_S,
    STDERR,
    STDOUT,
    WINDOW,
    RelayBeat,
    RelayData,
    RelayEnd,
    RelayFrame,
    RelayOpen,
    RelayResize,
    RelayWindow,
)

_log = get_logger("hostler.control.rpc.relays")
UNUSED_S = 30.0  # from its making until both ends are there
MOST, MOST_OF_ONE = 2_000, 16
_RESIZE_S = 0.1
AGENT, CLIENT = "agent", "client"
_UP = (STDOUT, STDERR)  # the streams that an agent sends on


class Relay:
    """`ended` is set with the reason; what was taken before it is still given out."""

    def __init__(self, relay_id: str, node_id: str, project_id: str, owner: str, metrics: Metrics) -> None:
        self.relay_id, self.node_id, self.project_id, self.owner = relay_id, node_id, project_id, owner
        self._metrics = metrics
        self._attached: set[str] = set()
        self._up: deque[RelayFrame] = deque()
        self._up_bytes = 0
        self._taken = 0  # of `_up_bytes`, by the client
        self._down: deque[RelayFrame] = deque()
        self._size: RelayResize | None = None
        self._is_input_over = self._is_output_over = False
        self._credit = 0  # what the agent has granted to the client
        self._news = {AGENT: asyncio.Event(), CLIENT: asyncio.Event()}
        self.why: HostlerError | None = None
        self.ended = asyncio.Event()

    def attach(self, end: str) -> None:
        """Raises `relay_taken`, and why it ended."""
        if self.why is not None:
            raise self.why
        if end in self._attached:
            raise error("relay_taken", f"the {end}'s end of this relay is taken")
        self._attached.add(end)
        if end == CLIENT:
            self._say_down(RelayWindow(WINDOW))

    @property
    def whole(self) -> bool:
        return len(self._attached) == 2

    def close(self, code: str, message: str) -> None:
        """For the first reason given."""
        if self.why is None:
            self.why = error(code, message)
            self.ended.set()
            for news in self._news.values():
                news.set()

    # -- from the agent ---------------------------------------------------------------------------

    def from_agent(self, frame: RelayFrame) -> None:
        """Raises `relay_closed` for an agent that sends more than it was granted, or what is not its to send."""
        if isinstance(frame, RelayWindow):
            self._credit += frame.bytes
            if self._up and isinstance(last := self._up[-1], RelayWindow):  # a flood of them is still one
                self._up[-1] = RelayWindow(last.bytes + frame.bytes)
            else:
                self._tell_client(frame)
        elif isinstance(frame, RelayOpen | RelayResize) or (isinstance(frame, RelayData) and frame.stream not in _UP):
            raise error("relay_closed", "the node sent what only a client, or the first frame, may say")
        elif isinstance(frame, RelayData) and frame.data:  # what is empty costs no grant
            self._up_bytes += len(frame.data)
            if self._up_bytes > WINDOW:
                raise error("relay_closed", "the node sent more than it was granted")
            self._metrics.relay_bytes.labels("up").inc(len(frame.data))
            self._tell_client(frame)
        elif isinstance(frame, RelayEnd) and not self._is_output_over:
            self._is_output_over = True
            self._tell_client(frame)

    async def to_agent(self) -> AsyncIterator[RelayFrame]:
        """What goes down, beats between; ends when the relay does."""
        news = self._news[AGENT]
        while self.why is None:
            news.clear()
            while self._down:
                yield self._down.popleft()
            if self._size is not None:
                size, self._size = self._size, None
                yield size
                await asyncio.sleep(_RESIZE_S)  # of a flood only the last counts
                continue
            try:
                async with asyncio.timeout(BEAT_S):
                    await news.wait()
            except TimeoutError:
                yield RelayBeat()

    # -- from the client --------------------------------------------------------------------------

    def input(self, stream: int, data: bytes) -> None:
        """Raises `relay_closed` for more than the agent has granted."""
        self._credit -= len(data)
        if self._credit < 0:
            raise error("relay_closed", "the client sent more than it was granted")
        self._metrics.relay_bytes.labels("down").inc(len(data))
        for start in range(0, len(data), CHUNK):
            self._say_down(RelayData(stream, data[start : start + CHUNK]))

    def resize(self, rows: int, columns: int) -> None:
        self._size = RelayResize(rows, columns)
        self._news[AGENT].set()

    def end_input(self) -> None:
        """Once: what is said again is kept nowhere."""
        if not self._is_input_over:
            self._is_input_over = True
            self._say_down(RelayEnd())

    async def to_client(self) -> AsyncIterator[RelayFrame]:
        """Data, windows and the end."""
        while True:
            frame = await self.take()
            yield frame
            if isinstance(frame, RelayEnd):
                return

    async def take(self) -> RelayFrame:
        """The next for the client, an end at the end; the agent is granted more only when the taker comes for more."""
        self._grant_taken()
        while not self._up:
            if self.why is not None:
                return RelayEnd(error_code=self.why.code, message=self.why.message)
            self._news[CLIENT].clear()
            await self._news[CLIENT].wait()
        frame = self._up.popleft()
        if isinstance(frame, RelayData):
            self._taken = len(frame.data)
        return frame

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and the agent has said nothing that was not taken but that it takes more."""
        return self.why is None and all(isinstance(frame, RelayWindow) for frame in self._up)

    def _grant_taken(self) -> None:
        if self._taken:
            self._up_bytes -= self._taken
            self._say_down(RelayWindow(self._taken))
            self._taken = 0

    def _tell_client(self, frame: RelayFrame) -> None:
        self._up.append(frame)
        self._news[CLIENT].set()

    def _say_down(self, frame: RelayFrame) -> None:
        self._down.append(frame)
        self._news[AGENT].set()


class Relays:
    """Those that are asked for or open. `idle_s`: how long nothing may move in one."""

    def __init__(self, metrics: Metrics, clock: Clock, idle_s: float) -> None:
        self.idle_s = idle_s
        self._metrics = metrics
        self._clock = clock
        self._relays: dict[str, Relay] = {}

    def __len__(self) -> int:
        return len(self._relays)

    def make(self, node_id: str, project_id: str, owner: str) -> Relay:
        """Gone by itself if it is not used. Raises `rate_limited`."""
        own = sum(1 for relay in self._relays.values() if relay.owner == owner)
        if own >= MOST_OF_ONE or len(self._relays) >= MOST:
            raise error("rate_limited", f"{own} sessions of yours are open, {len(self._relays)} in all")
        relay = Relay(new_id("rly", self._clock.now_ms()), node_id, project_id, owner, self._metrics)
        self._relays[relay.relay_id] = relay
        asyncio.get_running_loop().call_later(UNUSED_S, self._expire, relay)
        return relay

    def _expire(self, relay: Relay) -> None:
        if not relay.whole:
            self.drop(relay, "relay_expired", f"the relay was not used within {UNUSED_S:.0f} s")

    def drop(self, relay: Relay, code: str = "relay_closed", message: str = "the session has ended") -> None:
        if self._relays.pop(relay.relay_id, None) is not None:
            self._metrics.relay_sessions.labels("closed" if relay.whole else "unused").inc()
        relay.close(code, message)

    @contextmanager
    def of_node(self, relay_id: str, node_id: str) -> Any:
        """The agent's end for as long as the block lasts. Raises `not_found` for another node's, `relay_taken`."""
        relay = self._relays.get(relay_id)
        if relay is None or relay.node_id != node_id:
            raise error("not_found", "there is no such relay for this node")
        relay.attach(AGENT)
        try:
            yield relay
        finally:
            self.drop(relay, message="the node has left the session")

    @contextmanager
    def of_client(self, relay_id: str, project_id: str, owner: str) -> Any:
        """The client's end. Raises `not_found` for what is another project's or another principal's, `relay_taken`."""
        relay = self._relays.get(relay_id)
        if relay is None or relay.project_id != project_id or relay.owner != owner:
            raise error("not_found", f"there is no relay {relay_id[:64]!r} of yours in project {project_id!r}")
        relay.attach(CLIENT)
        try:
            yield relay
        finally:
            self.drop(relay, message="the client has left the session")

    def close_node(self, node_id: str, code: str, message: str) -> None:
        for relay in [each for each in self._relays.values() if each.node_id == node_id]:
            self.drop(relay, code, message)

    def close_all(self) -> None:
        for relay in list(self._relays.values()):
            self.drop(relay, "controller_unreachable", "the control plane is going down")


async def hear(relay: Relay, frames: AsyncIterator[RelayFrame]) -> None:
    """Takes what the agent sends until it ends or falls silent."""
    while not relay.ended.is_set():
        try:
            async with asyncio.timeout(SILENT_S):
                frame = await anext(frames, None)
        except HostlerError as err:
            relay.close(err.code, err.message)
            return
        except TimeoutError:
            relay.close("relay_closed", f"the node said nothing for {SILENT_S:.0f} s")
            return
        if frame is None:
            relay.close("relay_closed", "the node has left the session")
            return
        try:
            relay.from_agent(frame)
        except HostlerError as err:
            relay.close(err.code, err.message)
