"""How far running steps are: the newest of each, in memory only, for whoever follows an operation."""

import asyncio
from collections import OrderedDict

from hostler.wire.report import StepProgress

_KEPT_TASKS = 20_000


class ProgressBoard:
    """Written by links, read by event streams. Losing it loses nothing that is true later."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, tuple[int, StepProgress]] = OrderedDict()
        self._version = 0
        self._changed = asyncio.Event()

    def put(self, steps: tuple[StepProgress, ...]) -> None:
        for step in steps:
            self._version += 1
            self._latest[step.task_id] = (self._version, step)
            self._latest.move_to_end(step.task_id)
        while len(self._latest) > _KEPT_TASKS:
            self._latest.popitem(last=False)
        self._changed.set()
        self._changed = asyncio.Event()

    def since(self, version: int, task_ids: set[str]) -> tuple[int, list[StepProgress]]:
        """What changed after `version` for these tasks, and the version now."""
        fresh = [
            step
            for task_id in task_ids
            if task_id in self._latest and self._latest[task_id][0] > version
            for step in (self._latest[task_id][1],)
        ]
        return self._version, fresh

    async def changed(self) -> None:
        await self._changed.wait()
