"""One relay in the network process: frames of the runner up, frames of the control plane down, nothing kept back.

What the other end has not granted is not sent, so both queues are bounded by the window; whoever breaks that is cut.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from hostler.agent.outside.dial import dial
from hostler.agent.outside.frames import OpenRelay
from hostler.agent.outside.grpc_errors import as_hostler_error
from hostler.agent.outside.streams import Stream
from hostler.base.errors import error
from hostler.v1 import node_pb2
from hostler.wire.codec_relay import relay_message, relay_value
from hostler.wire.relay import RelayFrame, RelayOpen

RELAY = "/hostler.v1.NodeService/Relay"
MOST_FRAMES = 4096  # that wait in one direction, whatever they hold


class RelayCall:
    """Lives as long as the call does; it has a channel of its own, so that it never waits behind the session."""

    def __init__(self, order: OpenRelay, forward: Callable[[RelayFrame], Awaitable[None]]) -> None:
        self._order = order
        self._forward = forward
        self._outgoing: asyncio.Queue[RelayFrame | None] = asyncio.Queue(MOST_FRAMES)

    def put(self, frame: RelayFrame | None) -> bool:
        """False when the runner sends more than was granted."""
        try:
            self._outgoing.put_nowait(frame)
        except asyncio.QueueFull:
            return False
        return True

    def finish(self) -> bool:
        """Ends it behind the last frame; False when that cannot be waited for."""
        return self.put(None)

    async def run(self) -> None:
        """Until either side ends it.

        Raises:
            HostlerError: the control plane's own error, or `controller_unreachable`.
        """
        try:
            async with dial(self._order.address, self._order.tls) as channel:
                await self._stream(channel)
        except grpc.aio.AioRpcError as err:
            raise as_hostler_error(err, "the control plane") from err

    async def _stream(self, channel: grpc.aio.Channel) -> None:
        open_stream: Any = channel.stream_stream(
            RELAY, node_pb2.RelayFrame.SerializeToString, node_pb2.RelayFrame.FromString
        )
        call = Stream(open_stream())
        opened = await call.write(relay_message(RelayOpen(self._order.relay_id)))
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(call))
                await call.hear(lambda message: self._forward(relay_value(message)))
                sending.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        finally:
            call.cancel()
        if not opened:
            raise error("controller_unreachable", "the relay ended before it was open")

    async def _send(self, call: Stream) -> None:
        while True:
            frame = await self._outgoing.get()
            if frame is None:
                await call.done_writing()
                return
            if not await call.write(relay_message(frame)):
                return
