"""Ends sessions whose node has fallen silent or whose certificate has run out. Reads the clock, emits closes."""

import asyncio
from collections.abc import Awaitable, Callable


async def run(sweep: Callable[[], Awaitable[None]], every_s: float) -> None:
    """One look a heartbeat; nothing that works waits for it."""
    while True:
        await asyncio.sleep(every_s)
        await sweep()
