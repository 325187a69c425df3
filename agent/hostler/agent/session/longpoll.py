"""The same messages by unary calls, where a proxy does not let streams through (OP-15)."""

import asyncio
from collections.abc import AsyncIterator

from hostler.agent.session.outgoing import Outgoing
from hostler.v1 import node_pb2, node_pb2_grpc

WAIT_S = 20


class Polling:
    """Keeps one call waiting for messages from above, and makes another for what goes up meanwhile."""

    def __init__(self, stub: node_pb2_grpc.NodeServiceStub, outgoing: Outgoing) -> None:
        self._stub = stub
        self._outgoing = outgoing
        self._session_id = ""
        self._first: list[node_pb2.AgentMessage] = []
        self._received: asyncio.Queue[node_pb2.ControlMessage] = asyncio.Queue(256)

    def first(self, hello: node_pb2.AgentMessage) -> None:
        self._first = [hello]

    async def messages(self) -> AsyncIterator[node_pb2.ControlMessage]:
        """What the control plane sends, as a stream would give it."""
        while True:
            yield await self._received.get()

    async def run(self) -> None:
        """Opens the session, then keeps one call waiting while others carry what goes up."""
        await self._exchange(self._first, wait_s=0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait_for_more())
            group.create_task(self._send())

    async def _wait_for_more(self) -> None:
        while True:
            await self._exchange([], wait_s=WAIT_S)

    async def _send(self) -> None:
        while True:
            await self._exchange(await self._outgoing.next_batch(), wait_s=0)

    async def _exchange(self, batch: list[node_pb2.AgentMessage], wait_s: int) -> None:
        request = node_pb2.ExchangeRequest(session_id=self._session_id, messages=batch, wait_seconds=wait_s)
        answer = await self._stub.Exchange(request, timeout=wait_s + 20.0)
        self._session_id = answer.session_id
        for message in answer.messages:
            await self._received.put(message)
