"""The reader between a runtime's log and the control plane: pulls by cursor, no faster than the other end takes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from hostler.agent.containers.runtime import ContainerRuntime, Line
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.wire.race import first_cause

_log = get_logger("hostler.agent.containers.logs")
BATCH_LINES, BATCH_CHARACTERS = 200, 256 * 1024
_LONG_CHARACTERS = 16 * 1024
_GATHER_S = 0.05  # how long a line waits for its neighbours
_AGAIN_S = 1.0


class Lines(Protocol):
    """`StepContext` is one."""

    @property
    def log_batch(self) -> Callable[[Sequence[Line], str], Awaitable[None]]: ...

    @property
    def log_cursor(self) -> Callable[[str], str]: ...


async def ship(runtime: ContainerRuntime, container: str, phase: str, to: Lines) -> None:
    """Until the container has ended and everything it wrote is on its way; goes on where an earlier agent stood.

    A daemon that does not answer is waited for. Whoever cancels this gives up what was not read yet.

    Raises:
        HostlerError: what the runtime says of a container that is gone, and `storage_unhealthy`.
    """
    while True:
        try:
            await _follow(runtime.logs(container, to.log_cursor(phase), follow=True), phase, to)
            return
        except HostlerError as err:
            if err.code != "runtime_unavailable":
                raise
            _log.warning("logs.waiting", error=err, container=container)
        await asyncio.sleep(_AGAIN_S)


async def _follow(lines: AsyncIterator[Line], phase: str, to: Lines) -> None:
    """Two tasks, so that a line is shipped while the next is waited for; the queue bounds how far one is ahead.

    Lines may be a MiB long, and a task may write such lines on purpose: none is read on behind one that waits.
    """
    queue: asyncio.Queue[Line | None] = asyncio.Queue(BATCH_LINES)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_read(lines, queue))
            while batch := await _next(queue):
                await to.log_batch(batch, phase)
    except BaseExceptionGroup as failed:
        raise first_cause(failed) from failed


async def _read(lines: Any, queue: "asyncio.Queue[Line | None]") -> None:
    async with aclosing(lines):
        async for line in lines:
            await queue.put(line)
            if len(line.text) > _LONG_CHARACTERS:
                await queue.join()
    await queue.put(None)


async def _next(queue: "asyncio.Queue[Line | None]") -> list[Line]:
    """The next lines; none at the end, which is put back for the call after and for which no line waits."""
    first = await queue.get()
    if first is None:
        return []
    queue.task_done()
    batch, size = [first], len(first.text)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GATHER_S):
            while len(batch) < BATCH_LINES and size < BATCH_CHARACTERS:
                line = await queue.get()
                if line is None:
                    queue.put_nowait(None)
                    break
                queue.task_done()
                batch.append(line)
                size += len(line.text)
    return batch
