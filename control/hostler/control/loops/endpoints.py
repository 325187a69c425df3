"""Sweeps endpoints whose lease or attempt is over (TE-11). Reads the store and the clock, emits `SweepEndpoints`."""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.endpoint_commands import SweepEndpoints

_log = get_logger("hostler.control.loops.endpoints")
_EVERY_S = 10.0


async def run(engine: Engine) -> None:
    """Nothing waits for it: what is over is hidden at once, and this only writes it down."""
    while True:
        await asyncio.sleep(_EVERY_S)
        await sweep(engine)


async def sweep(engine: Engine) -> int:
    swept = 0
    while await engine.reader.endpoints_over():
        swept += await engine.execute(SweepEndpoints())
    if swept:
        _log.info("endpoints.swept", count=swept)
    return swept
