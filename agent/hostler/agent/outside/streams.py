"""A call both ways that is heard to its end, whatever becomes of the writing."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import grpc
import grpc.aio

T = TypeVar("T")


class Stream:
    """Keeps why the other side ended it: gRPC puts the failure of a write in the place of that."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._first: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._ended)

    async def write(self, message: Any) -> bool:
        """False when the call has ended meanwhile: what was said last, and why it ended, is still there to be heard."""
        try:
            await self._call.write(message)
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
            return False
        return True

    async def done_writing(self) -> None:
        await self._call.done_writing()

    async def hear(self, take: Callable[[Any], Awaitable[None]]) -> None:
        """Until the other side has ended it; raises `AioRpcError` where that was for an error."""
        try:
            async for message in self._call:
                await take(message)
        except grpc.aio.AioRpcError as err:
            if err.code() is not grpc.StatusCode.INTERNAL or self._first is None:
                raise
            if self._first.code() is not grpc.StatusCode.OK:
                raise self._first from err

    def cancel(self) -> None:
        self._call.cancel()

    def _ended(self, call: Any) -> None:
        """In the very moment: by the next turn of the loop a write may have failed."""
        self._first = grpc.aio.AioRpcError(
            _at_once(call.code()),
            grpc.aio.Metadata(),
            _at_once(call.trailing_metadata()),
            details=_at_once(call.details()),
            debug_error_string="",
        )


def _at_once(answer: Coroutine[Any, Any, T]) -> T:
    """A call that has ended answers without a wait."""
    try:
        answer.send(None)
    except StopIteration as said:
        value: T = said.value
        return value
    raise RuntimeError("a call that has ended does not say how")
