"""How far running steps are: the newest of each task, in memory only, for whoever follows an operation."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hostler.base.clock import Clock
from hostler.wire.report import StepProgress

_KEPT_TASKS = 20_000
_WAKE_EVERY_S = 0.25


class Key(NamedTuple):
    """A node speaks of its own tasks only: what it says of others' is filed where nobody looks (I7)."""

    node_id: str
    task_id: str


class _Entry:
    def __init__(self) -> None:
        self.version = 0
        self.step: StepProgress | None = None
        self.woke_at = float("-inf")


class ProgressBoard:
    """Written by links, read by event streams. Losing it loses nothing that is true later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: OrderedDict[Key, _Entry] = OrderedDict()
        self._followers: dict[Key, list[Callable[[], None]]] = {}
        self._version = 0

    def put(self, node_id: str, steps: Iterable[StepProgress]) -> None:
        """Followers hear of a task a few times a second at most, however often its node speaks."""
        now = self._clock.monotonic()
        for step in steps:
            key = Key(node_id, step.task_id)
            entry = self._latest.setdefault(key, _Entry())
            self._latest.move_to_end(key)
            self._version += 1
            entry.version, entry.step = self._version, step
            if now - entry.woke_at >= _WAKE_EVERY_S:
                entry.woke_at = now
                for wake in self._followers.get(key, ()):
                    wake()
        while len(self._latest) > _KEPT_TASKS:
            self._latest.popitem(last=False)

    def since(self, version: int, keys: Iterable[Key]) -> tuple[int, list[StepProgress]]:
        """What changed after `version` for these tasks, and the version now."""
        entries = (self._latest.get(key) for key in keys)
        return self._version, [entry.step for entry in entries if entry and entry.step and entry.version > version]

    @contextmanager
    def following(self, keys: Iterable[Key], wake: Callable[[], None]) -> Iterator[None]:
        """Calls `wake` when one of these tasks has moved on."""
        kept = tuple(keys)
        for key in kept:
            self._followers.setdefault(key, []).append(wake)
        try:
            yield
        finally:
            for key in kept:
                self._followers[key].remove(wake)
                if not self._followers[key]:
                    del self._followers[key]
