"""The one thread that writes: whatever waits becomes one transaction (group commit).

    submit ─▶ queue ─▶ BEGIN ─▶ each item: SAVEPOINT, work, RELEASE ─▶ COMMIT (fsync) ─▶ one call on the loop

An item that fails takes back its own savepoint only. A commit that fails fails every item of its group, and
nothing of them has happened.
"""

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from hostler.base.errors import HostlerError, error
from hostler.control.store.db import store_error

MAX_GROUP = 512


class Done(NamedTuple):
    """What an item came to: its answer or its error, and what its commit has to tell others."""

    answer: Any
    failure: BaseException | None
    news: Any


class Writer:
    """Runs `work(item)` for each item, inside a transaction on `db`.

    Args:
        work: does the item's reads and writes; returns (answer, failure, news). `failure` is an error that
            goes to the caller although what was written stands.
        rolled_back: called in the thread whenever something written was taken back.
        published: called on the loop with the news of a committed group.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        work: Callable[[Any], Done],
        rolled_back: Callable[[], None],
        published: Callable[[list[Any]], None],
    ) -> None:
        self._db = db
        self._work = work
        self._rolled_back = rolled_back
        self._published = published
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._ready = threading.Event()
        self._closing = False
        self._healthy = True
        self._thread = threading.Thread(target=self._run, name="hostler-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs and its last commit worked."""
        return self._healthy and self._thread.is_alive()

    def submit(self, item: Any) -> "asyncio.Future[Any]":
        """On the loop. The future ends when the item's group is on disk."""
        if self._closing or not self._thread.is_alive():
            raise error("store_unavailable", "the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.append((item, future))
        self._ready.set()
        return future

    async def close(self) -> None:
        """Finishes what waits, then ends the thread."""
        self._closing = True
        self._ready.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            self._ready.wait()
            self._ready.clear()
            while self._queue:
                self._group()
            if self._closing and not self._queue:
                return

    def _group(self) -> None:
        items = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            done = [self._one(item) for item, _ in items]
            self._db.execute("COMMIT")
            self._healthy = True
        except (sqlite3.Error, HostlerError) as err:
            failure = err if isinstance(err, HostlerError) else store_error(err)
            self._healthy = False
            done = [Done(None, failure, None)] * len(items)
            self._undo("ROLLBACK")
        futures = [future for _, future in items]
        # RuntimeError: the loop ended while we wrote; nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._resolve, futures, done)

    def _one(self, item: Any) -> Done:
        self._db.execute("SAVEPOINT item")
        try:
            done = self._work(item)
        except Exception as err:  # noqa: BLE001  # the edge of a request: ours is the bug, theirs the answer
            self._undo("ROLLBACK TO item")
            failure = error("internal_error", f"the command failed in the store: {type(err).__name__}")
            failure.__cause__ = err
            done = Done(None, failure, None)
        self._db.execute("RELEASE item")
        return done

    def _undo(self, statement: str) -> None:
        # sqlite3.Error: the transaction is gone already, as after a full disk.
        with contextlib.suppress(sqlite3.Error):
            self._db.execute(statement)
        self._rolled_back()

    def _resolve(self, futures: list["asyncio.Future[Any]"], done: list[Done]) -> None:
        self._published([each.news for each in done if each.news is not None])
        for future, each in zip(futures, done, strict=True):
            if future.cancelled():
                continue
            if each.failure is None:
                future.set_result(each.answer)
            else:
                future.set_exception(each.failure)
