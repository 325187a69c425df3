"""Ends lifecycle runs whose time is over, and lets rollouts go on. Reads the clock, emits `AdvanceAgents`."""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.agent_commands import AdvanceAgents

_log = get_logger("hostler.control.loops.agents")
_EVERY_S = 5.0


async def run(engine: Engine) -> None:
    """What moves a run otherwise (a task's end, a hello, a report) is acted on when it comes, not here."""
    while True:
        await asyncio.sleep(_EVERY_S)
        moved = await engine.execute(AdvanceAgents())
        if moved:
            _log.info("agents.advanced", count=moved)
