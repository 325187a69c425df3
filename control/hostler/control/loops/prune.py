"""Drops log lines that are older than they are kept (OD-31). Reads the store, emits `PruneLogs`."""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.log_commands import PruneLogs

_log = get_logger("hostler.control.loops.prune")
_EVERY_S = 600.0
_BATCH = 2_000  # lines in one commit, so that no task waits for the broom
_DAY_MS = 86_400_000


async def run(engine: Engine, log_days: int) -> None:
    while True:
        if dropped := await prune_logs(engine, log_days):
            _log.info("logs.pruned", count=dropped)
        await asyncio.sleep(_EVERY_S)


async def prune_logs(engine: Engine, log_days: int) -> int:
    """Everything that is due, a batch at a time; how many lines that were."""
    dropped = 0
    while True:
        due = await engine.reader.prunable_logs(engine.clock.now_ms() - log_days * _DAY_MS, _BATCH)
        if due is None:
            return dropped
        await engine.execute(PruneLogs(due.up_to))
        dropped += due.lines
