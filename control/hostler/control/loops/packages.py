"""Removes what crashes left of packages that were being sent, and says at once when the kept metadata is spoilt."""

import asyncio
import contextlib

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.control.delivery.packages import Packages

_log = get_logger("hostler.control.loops.packages")
_EVERY_S = 3600.0


async def run(packages: Packages, clock: Clock) -> None:
    """At the start and every hour: nobody waits for it."""
    with contextlib.suppress(HostlerError):  # it was logged; whoever publishes is told
        await asyncio.to_thread(packages.metadata)
    while True:
        await tidy(packages, clock)
        await asyncio.sleep(_EVERY_S)


async def tidy(packages: Packages, clock: Clock) -> int:
    """→ how many files are gone."""
    swept = await asyncio.to_thread(packages.sweep, clock.now_ms())
    if swept:
        _log.info("packages.tidied", swept=swept)
    return swept
