"""Drops log lines and jobs that were kept for long enough (OD-31). Reads the store, emits `PruneLogs`, `PruneJob`."""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.job_commands import PruneJob
from hostler.control.kernel.log_commands import PruneLogs

_log = get_logger("hostler.control.loops.prune")
_EVERY_S = 600.0
_BATCH = 2_000  # lines in one commit, so that no task waits for the broom
_JOBS_AT_ONCE = 500  # of one query; each is a transaction of its own
_PAUSE_S = 0.02  # between two jobs (BK-03)
_DAY_MS = 86_400_000


async def run(engine: Engine, log_days: int, job_days: int) -> None:
    while True:
        if dropped := await prune_logs(engine, log_days):
            _log.info("logs.pruned", count=dropped)
        if gone := await prune_jobs(engine, job_days):
            _log.info("jobs.pruned", count=gone)
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


async def prune_jobs(engine: Engine, job_days: int) -> int:
    """Everything that is due, children before their parents; how many jobs that were."""
    gone = 0
    while True:
        before_ms = engine.clock.now_ms() - job_days * _DAY_MS
        went = 0
        for job_id in await engine.reader.prunable_jobs(before_ms, _JOBS_AT_ONCE):
            went += bool(await engine.execute(PruneJob(job_id, before_ms)))
            await asyncio.sleep(_PAUSE_S)
        if not went:
            return gone
        gone += went
