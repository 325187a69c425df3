"""Files what nodes have measured and drops what is old. Reads the board and the clock, emits rows of a file that
no decision reads (OB-09). What cannot be filed is lost, and said once."""

import asyncio

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.control.samples import SampleBoard
from hostler.control.store.samples import PRUNED_AT_ONCE, SampleFile

_log = get_logger("hostler.control.loops.samples")
EVERY_S = 5.0
_PRUNE_EVERY = 60  # turns
_MOST_AT_A_TIME = 100


class SampleFiler:
    """Args:
    keep_ms: how old measurements become.
    most_rows: how many there may be, whatever their age.
    """

    def __init__(self, board: SampleBoard, file: SampleFile, clock: Clock, keep_ms: int, most_rows: int) -> None:
        self._board, self._file, self._clock = board, file, clock
        self._keep_ms, self._most_rows = keep_ms, most_rows
        self._failing = False

    async def run(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(EVERY_S)
            await self.file()
            if turn % _PRUNE_EVERY == 0:
                self._board.forget_stale()
                await self.prune()
            turn += 1

    async def file(self) -> None:
        """Everything that waits, in one transaction."""
        waiting = self._board.drain()
        if not waiting:
            return
        try:
            await asyncio.to_thread(self._file.add, waiting)
        except HostlerError as err:
            if not self._failing:
                _log.warning("samples.not_filed", error=err, lost=len(waiting))
            self._failing = True
            return
        self._failing = False

    async def prune(self) -> None:
        """A bounded number at a time, so that readers get their turn."""
        try:
            for _ in range(_MOST_AT_A_TIME):
                if await self._prune_some() < PRUNED_AT_ONCE:
                    return
        except HostlerError as err:
            _log.warning("samples.not_pruned", error=err)

    async def _prune_some(self) -> int:
        before = self._clock.now_ms() - self._keep_ms
        return await asyncio.to_thread(self._file.prune, before, self._most_rows)
