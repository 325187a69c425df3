"""Waits for a transfer's threads while minding what may end them: cancellation, the deadline, a
source that is too slow (A5)."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from hostler.agent.fetch.budget import Transient
from hostler.agent.fetch.stream import Gauge
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError, error

T = TypeVar("T")

TICK_SECONDS = 0.1
# How long a thread may take to notice that its connection is gone; one stuck in a dead disk never does.
PATIENCE_SECONDS = 5.0


class Brake(Protocol):
    def end(self) -> None: ...


class Watch:
    """The only place a transfer waits in."""

    def __init__(
        self,
        deadline: Deadline,
        cancelled: asyncio.Event,
        settings: FetchSettings,
        gauge: Gauge,
        tick: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._deadline, self._cancelled, self._settings = deadline, cancelled, settings
        self._gauge, self._tick = gauge, tick
        self._stuck: set[asyncio.Future[Any]] = set()
        self.stopped = False
        self.unsaved = False

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise error("canceled", "the transfer was cancelled")
        if self._deadline.passed():
            raise error("timeout", "the transfer took longer than the step may")

    async def worker(self, future: "asyncio.Future[T]", link: Brake | None) -> T:
        """The result of a thread, or the reason why it was ended; never leaves it running behind
        except in a disk that hangs."""
        rate = _Rate(self._settings, self._gauge)
        try:
            while True:
                done, _ = await asyncio.wait({future}, timeout=TICK_SECONDS)
                if done:
                    return future.result()
                self._check()
                if link is not None:
                    rate.check()
                if self._tick is not None:
                    await self._tick()
        except BaseException as err:
            if future.done():
                raise
            self.stopped = not isinstance(err, Transient)
            if link is not None:
                link.end()
            await self._let_end(future)
            raise

    async def _let_end(self, future: "asyncio.Future[Any]") -> None:
        await asyncio.wait({future}, timeout=PATIENCE_SECONDS)
        if future.done():
            future.exception()  # what the thread says about its ended connection is not the reason
        else:
            self._stuck.add(future)

    async def dialled(self, work: Coroutine[Any, Any, socket.socket]) -> socket.socket:
        """Awaits a connection under the same conditions."""
        stop: HostlerError | None = None
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_captured(work))
            while not task.done() and stop is None:
                await asyncio.wait({task}, timeout=TICK_SECONDS)
                try:
                    self._check()
                except HostlerError as err:
                    stop = err
                    task.cancel()
        made = None if task.cancelled() else task.result()
        if stop is not None:
            if isinstance(made, socket.socket):
                made.close()
            raise stop
        assert made is not None
        if isinstance(made, Exception):
            raise made
        return made

    async def pause(self, seconds: float) -> None:
        """Waits, but not for what is cancelled or over."""
        self._check()
        wait = min(seconds, self._deadline.remaining())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._cancelled.wait(), wait)
        self._check()

    def when_idle(self, close: Callable[[], None]) -> None:
        """Closes now, or when the last stuck thread comes back: a descriptor number that is given
        out anew under its feet would make it write into another's file."""
        waiting = set(self._stuck)
        if not waiting:
            close()
            return

        def settled(done: asyncio.Future[Any]) -> None:
            waiting.discard(done)
            if not waiting:
                close()

        for future in waiting:
            future.add_done_callback(settled)


async def _captured(work: Coroutine[Any, Any, socket.socket]) -> socket.socket | Exception:
    """So that a failure leaves the task group as itself, not wrapped."""
    try:
        return await work
    except (HostlerError, Transient) as err:
        return err


class _Rate:
    """Bytes off the network over a window; the time our own disk takes does not count."""

    def __init__(self, settings: FetchSettings, gauge: Gauge) -> None:
        self._settings, self._gauge = settings, gauge
        self._restart()

    def _restart(self) -> None:
        self._since = asyncio.get_running_loop().time()
        self._before = self._gauge.received

    def check(self) -> None:
        window, least = self._settings.rate_window_seconds, self._settings.min_rate_bytes_per_s
        if self._gauge.waits_for_disk:
            self._restart()
        elapsed = asyncio.get_running_loop().time() - self._since
        if elapsed < window:
            return
        if self._gauge.received - self._before < least * elapsed:
            raise Transient(f"the source sent less than {least} bytes a second over {window:g} s")
        self._restart()
