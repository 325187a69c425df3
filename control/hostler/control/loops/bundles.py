"""Removes code bundles that nobody used for long, and files that no row speaks of. Emits `ExpireBundles`."""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.bundles.files import BundleFiles, Key
from hostler.control.engine import Engine
from hostler.control.kernel.bundle_commands import ExpireBundles

_log = get_logger("hostler.control.loops.bundles")
_EVERY_S = 3600.0
_DAY_MS = 86_400_000


async def run(engine: Engine, files: BundleFiles) -> None:
    """At the start and every hour: nobody waits for it."""
    while True:
        await tidy(engine, files)
        await asyncio.sleep(_EVERY_S)


async def tidy(engine: Engine, files: BundleFiles) -> int:
    """→ how many bundles have expired."""
    command = ExpireBundles(unused_since_ms=engine.clock.now_ms() - files.settings.unused_days * _DAY_MS)
    expired = 0
    while True:
        async with files.placing:
            gone = await engine.execute(command)
            for key in gone:
                await asyncio.to_thread(files.remove, Key(*key))
        expired += len(gone)
        if len(gone) < command.limit:
            break
    async with files.placing:  # a file has its row before anybody else may look
        held = await engine.reader.bundle_keys()
        swept = await asyncio.to_thread(files.sweep, held, engine.clock.now_ms())
    if expired or swept:
        _log.info("bundles.tidied", expired=expired, swept=swept)
    return expired
