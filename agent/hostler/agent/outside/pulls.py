"""Calls whose answer is a stream: passed on as fast as the runner takes it, and no faster."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc.aio

from hostler.agent.outside.dial import dial
from hostler.agent.outside.frames import Answer, Drop, More, Piece, Pull, ToRunner
from hostler.agent.outside.grpc_errors import as_hostler_error
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.outside")
# As for `serve.METHODS`: a method is never a free text on the wire.
METHODS = {"FetchBundle": "/hostler.v1.NodeService/FetchBundle"}


class Pulls:
    """One task a call. What the runner has not taken stays in the connection, whose window closes."""

    def __init__(self, say: Callable[[ToRunner], Awaitable[None]]) -> None:
        self._say = say
        self._running: dict[int, tuple[asyncio.Semaphore, asyncio.Task[None]]] = {}

    def take(self, group: asyncio.TaskGroup, frame: Pull | More | Drop) -> None:
        if isinstance(frame, Pull):
            credit = asyncio.Semaphore(frame.credit)
            self._running[frame.call] = credit, group.create_task(self._run(frame, credit))
            return
        held = self._running.get(frame.call)
        if held is None:
            return
        credit, task = held
        if isinstance(frame, Drop):
            task.cancel()
            return
        for _ in range(frame.count):
            credit.release()

    def cancel(self) -> None:
        for _, task in list(self._running.values()):
            task.cancel()

    async def _run(self, pull: Pull, credit: asyncio.Semaphore) -> None:
        ended = Answer(call=pull.call)
        try:
            await self._pass_on(pull, credit)
        except HostlerError as err:
            ended = Answer(call=pull.call, error_code=err.code, message=err.message, hint=err.hint)
        except Exception as err:  # noqa: BLE001 - the edge of a call: this one ends, the process goes on
            _log.exception("pull.failed")
            ended = Answer(call=pull.call, error_code="internal_error", message=f"it failed: {type(err).__name__}")
        finally:
            self._running.pop(pull.call, None)
        await self._say(ended)

    async def _pass_on(self, pull: Pull, credit: asyncio.Semaphore) -> None:
        if pull.method not in METHODS:
            raise error("internal_error", f"there is no call {pull.method!r}")
        try:
            async with dial(pull.address, pull.tls) as channel:
                call = channel.unary_stream(METHODS[pull.method], None, None)(pull.request)
                async for data in call:
                    await credit.acquire()
                    await self._say(Piece(call=pull.call, data=data))
        except grpc.aio.AioRpcError as err:
            raise as_hostler_error(err, pull.address) from err
