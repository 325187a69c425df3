"""What wakes whoever follows a container's log: a write to it, and the word of whoever waits for its end anyway.

Nobody looks at a container again and again to learn whether it has ended: the one who waits for the end says so.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from hostler.agent.containers.runtime import Status
from hostler.agent.host.inotify import Writes

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.25  # where nothing would tell
_TOLD_PAUSE_S = 5.0  # where all is told


class _Known:
    """Attributes:
    over: it has ended, and all that it said is in its log.
    waiting: how many wait for that now.
    """

    def __init__(self) -> None:
        self.over = False
        self.users = self.waiting = 0
        self.followers: list[Follower] = []

    def wake(self) -> None:
        for one in self.followers:
            one.wake.set()


class Follower:
    """One reader of one log."""

    def __init__(self, known: _Known) -> None:
        self.wake = asyncio.Event()
        self.sees_writes = False
        self._known = known
        self._pause_s = _FIRST_PAUSE_S

    async def over(self, ask: Callable[[], Awaitable[bool]]) -> bool:
        """Whether nothing will be written any more. The runtime is asked only where nobody waits for the end."""
        self.wake.clear()
        if self._known.over:
            return True
        return not self._known.waiting and await ask()

    async def pause(self, *, read_some: bool) -> None:
        """Until there may be something new."""
        told = self.sees_writes and self._known.waiting > 0
        self._pause_s = _FIRST_PAUSE_S if read_some else min(self._pause_s * 2, _LONGEST_PAUSE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_PAUSE_S if told else self._pause_s):
                await self.wake.wait()


class Following:
    """Of all containers of one runtime."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._writes = Writes()

    def close(self) -> None:
        self._writes.close()

    @contextlib.contextmanager
    def follower(self, container: str, log: Path | None = None) -> Iterator[Follower]:
        """Without a log the runtime tells of writes itself."""
        with self._entry(container) as known, contextlib.ExitStack() as stack:
            made = Follower(known)
            known.followers.append(made)
            try:
                if log is not None:
                    made.sees_writes = stack.enter_context(self._writes.below(log.parent, made.wake))
                yield made
            finally:
                known.followers.remove(made)

    async def waited(self, container: str, wait: Callable[[], Awaitable[Status]]) -> Status:
        """What `wait` says of a container that has ended; its followers hear of it."""
        with self._entry(container) as known:
            known.waiting += 1
            try:
                status = await wait()
                known.over = True
                return status
            finally:
                known.waiting -= 1
                known.wake()

    def ended(self, container: str) -> None:
        """It has ended and all that it said is in its log; how it ended is still to be found out."""
        if known := self._known.get(container):
            known.over = True
            known.wake()

    @contextlib.contextmanager
    def _entry(self, container: str) -> Iterator[_Known]:
        """Forgotten with the last who wants to know."""
        known = self._known.setdefault(container, _Known())
        known.users += 1
        try:
            yield known
        finally:
            known.users -= 1
            if not known.users:
                del self._known[container]
