"""Ends tasks whose node never came. Reads the clock, emits `ExpireTasks`."""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.commands import ExpireTasks

_log = get_logger("hostler.control.loops.expire")
_EVERY_S = 5.0


async def run(engine: Engine) -> None:
    """Every few seconds: expiry is a matter of minutes, and nothing waits for it."""
    while True:
        await asyncio.sleep(_EVERY_S)
        ended = await engine.execute(ExpireTasks())
        if ended:
            _log.info("tasks.expired", count=ended)
