"""One link to the control plane: the stream, or the same messages by long poll where a proxy lets none through."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from hostler.agent.outside.dial import dial
from hostler.agent.outside.frames import OpenLink
from hostler.agent.outside.grpc_errors import as_hostler_error
from hostler.agent.outside.streams import Stream
from hostler.base.errors import error
from hostler.v1 import node_pb2
from hostler.wire.codec_node import control_value
from hostler.wire.node import FromControl

SESSION, EXCHANGE = "/hostler.v1.NodeService/Session", "/hostler.v1.NodeService/Exchange"
WAIT_S = 20
Forward = Callable[[FromControl], Any]


class Link:
    """Lives as long as the call does. `outgoing` takes serialized `AgentMessage`s, in order."""

    def __init__(self, order: OpenLink, forward: Forward) -> None:
        self._order = order
        self._forward = forward
        self.outgoing: asyncio.Queue[tuple[bytes, ...]] = asyncio.Queue(8)

    async def run(self) -> None:
        """Until either side ends it.

        Raises:
            HostlerError: the control plane's own error, or `controller_unreachable`.
        """
        try:
            async with dial(self._order.address, self._order.tls) as channel:
                await (_Polling(self, channel).run() if self._order.polls else self._stream(channel))
        except grpc.aio.AioRpcError as err:
            raise as_hostler_error(err, "the control plane") from err

    async def _stream(self, channel: grpc.aio.Channel) -> None:
        open_stream = channel.stream_stream(SESSION, None, node_pb2.ControlMessage.FromString)
        call = Stream(open_stream(None, wait_for_ready=False))
        opened = await call.write(self._order.hello)
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(call))
                await call.hear(self.take)
                sending.cancel()
        except BaseExceptionGroup as failed:
            raise _first_cause(failed) from failed
        finally:
            call.cancel()
        if not opened:
            raise error("controller_unreachable", "the session ended before it was open")

    async def _send(self, call: Stream) -> None:
        while True:
            for message in await self.outgoing.get():
                if not await call.write(message):
                    return

    async def take(self, message: node_pb2.ControlMessage) -> None:
        await self._forward(control_value(message))

    @property
    def hello(self) -> bytes:
        return self._order.hello


class _Polling:
    """Keeps one call waiting for messages from above, and makes another for what goes up meanwhile (OP-15)."""

    def __init__(self, link: Link, channel: grpc.aio.Channel) -> None:
        self._link = link
        self._call = channel.unary_unary(EXCHANGE, None, node_pb2.ExchangeResponse.FromString)
        self._session_id = ""

    async def run(self) -> None:
        await self._exchange((self._link.hello,), wait_s=0)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._wait_for_more())
                group.create_task(self._send())
        except BaseExceptionGroup as failed:
            raise _first_cause(failed) from failed

    async def _wait_for_more(self) -> None:
        while True:
            await self._exchange((), wait_s=WAIT_S)

    async def _send(self) -> None:
        while True:
            await self._exchange(await self._link.outgoing.get(), wait_s=0)

    async def _exchange(self, batch: tuple[bytes, ...], wait_s: int) -> None:
        request = node_pb2.ExchangeRequest(
            session_id=self._session_id,
            messages=[node_pb2.AgentMessage.FromString(message) for message in batch],
            wait_seconds=wait_s,
        )
        answer = await self._call(request.SerializeToString(), timeout=wait_s + 20.0)
        self._session_id = answer.session_id
        for message in answer.messages:
            await self._link.take(message)


def _first_cause(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    cause: BaseException = failed
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause
