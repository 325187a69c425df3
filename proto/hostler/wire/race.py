"""Several things at once, of which the first that fails ends all: what each end of a relay is made of."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(*doing: Coroutine[Any, Any, Any]) -> None:
    """Returns when one of them has returned, or raises what one of them raised; the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each) for each in doing]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for one in running:
                one.cancel()
    except BaseExceptionGroup as failed:
        raise first_cause(failed) from failed


async def together(*doing: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """What each of them returned, or raises what the first of them raised."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each) for each in doing]
    except BaseExceptionGroup as failed:
        raise first_cause(failed) from failed
    return tuple(one.result() for one in running)


def first_cause(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    cause: BaseException = failed
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause
