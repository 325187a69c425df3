"""What happened has to be written: a sick disk delays it, and loses nothing (K4)."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hostler.base.clock import full_jitter
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger

T = TypeVar("T")
STORAGE_CODES = ("disk_full", "storage_unhealthy")
_log = get_logger("hostler.agent.runner.patience")
_RNG = random.Random()  # seeded once: that costs more than most writes


async def durably(write: Callable[[], Awaitable[T]]) -> T:
    """Tries again until the journal takes it; every other error is the caller's.

    Ends only with the process: what was not written then is found by `probe` after the restart.
    """
    for attempt in itertools.count():
        try:
            return await write()
        except HostlerError as err:
            if err.code not in STORAGE_CODES:
                raise
            if attempt == 0:
                _log.error("journal.write_delayed", error=err)
        await asyncio.sleep(full_jitter(attempt, base_s=0.05, cap_s=5.0, rng=_RNG))
    raise AssertionError("unreachable")
