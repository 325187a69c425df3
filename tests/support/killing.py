"""A seeded killer: SIGKILL for the parts of a house, each in turn at random, while the house works."""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

Part = tuple[Callable[[], object], Callable[[], object]]  # kills it; starts it again


class Killer:
    """A thread of rounds: in each round every part is killed once, in an order of the round's own.

    `killed` are the parts in order, each with what `watch` said just before.
    The pauses before a kill and before the start that follows it are random too.
    """

    def __init__(
        self, parts: Mapping[str, Part], seed: int, rounds: int, watch: Callable[[], int], pause_s: float = 0.5
    ) -> None:
        self._parts, self._random, self._rounds = parts, random.Random(seed), rounds
        self._watch, self._pause_s = watch, pause_s
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None
        self.killed: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            for _ in range(self._rounds):
                self._round(self._random.sample(sorted(self._parts), len(self._parts)))
        except BaseException as err:
            self._failure = err

    def _round(self, order: Sequence[str]) -> None:
        for name in order:
            self._wait()
            kill, start = self._parts[name]
            self.killed.append((name, self._watch()))
            kill()
            self._wait()
            start()

    def _wait(self) -> None:
        threading.Event().wait(self._random.uniform(0.05, 2 * self._pause_s))
