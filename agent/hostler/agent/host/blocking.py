"""Looks and writes that may never come back: a dead file system holds a thread for as long as it is dead (K5).

So nobody waits for such a thread longer than he wants to, the same look is not begun twice, and when too many
hang no more are begun.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hostler.agent.host.threads import start
from hostler.base.errors import error

T = TypeVar("T")
MOST_HANGING = 32


class Blocking:
    """The door."""

    def __init__(self) -> None:
        self._left: dict[asyncio.Future[Any], str] = {}

    @property
    def hanging(self) -> int:
        """Threads that somebody gave up waiting for and that have not come back."""
        return len(self._left)

    async def run(self, work: Callable[[], T], *, key: str = "") -> T:
        """The result of `work`, done in a thread of its own.

        Args:
            key: what a look is about; "" for work that changes something. While a look hangs, the next one
                about the same waits for its answer instead of hanging beside it.

        Raises:
            HostlerError: `timeout` when too many threads hang already; and what `work` raises.
        """
        future = self._same(key)
        if future is None:
            if len(self._left) >= MOST_HANGING:
                raise error("timeout", f"{len(self._left)} earlier looks at files of this node still hang")
            future = start(work, "hostler-blocking")
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            self._leave(future, key)
            raise
        return cast("T", future.result())

    def _same(self, key: str) -> "asyncio.Future[Any] | None":
        return next((future for future, about in self._left.items() if key and about == key), None)

    def _leave(self, future: "asyncio.Future[Any]", key: str) -> None:
        if future.done() or future in self._left:
            return
        self._left[future] = key
        future.add_done_callback(self._came_back)

    def _came_back(self, future: "asyncio.Future[Any]") -> None:
        future.exception()  # nobody else asks
        self._left.pop(future, None)
