"""OB-07: what a task says is read no faster than it is taken, and in no more memory than it takes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from hostler.agent.containers.logs import ship
from hostler.agent.containers.runtime import Line


class Flood:
    """A runtime whose container says the same for ever; `said` is how much of it was read."""

    def __init__(self, characters: int) -> None:
        self.said, self._text = 0, "x" * characters

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        while True:
            self.said += len(self._text)
            yield Line("stdout", self._text, True, "")


class Stalled:
    """Takes one batch, and then no more."""

    def __init__(self) -> None:
        self.log_cursor: Callable[[str], str] = lambda _: ""
        self.taken, self.stalled = list[Line](), asyncio.Event()

    async def log_batch(self, lines: Sequence[Line], _: str) -> None:
        if self.taken:
            self.stalled.set()
            await asyncio.Event().wait()
        self.taken += lines


@pytest.mark.parametrize("characters", [10, 10_000, 1 << 20])
async def test_N1_nobody_who_is_slow_is_made_to_hold_a_flood_of_long_lines(characters: int) -> None:
    runtime: Any = Flood(characters)
    slow: Any = Stalled()
    shipping = asyncio.ensure_future(ship(runtime, "c1", "main", slow))
    async with asyncio.timeout(10):
        await slow.stalled.wait()
    for _ in range(1000):
        await asyncio.sleep(0)
    shipping.cancel()
    await asyncio.wait([shipping])
    assert runtime.said < 8 << 20
