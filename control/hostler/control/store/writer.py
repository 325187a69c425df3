"""The one thread that writes: whatever waits becomes one transaction (group commit).

    submit ─▶ queue ─▶ BEGIN ─▶ work(item) for each ─▶ flush ─▶ COMMIT (fsync) ─▶ one call on the loop

`work` decides and writes nothing, so an item that fails there leaves no trace. When the database refuses what
a group wants to write, the group is rolled back and its items are done again one by one, each in a transaction
of its own: only the one that cannot be written fails.
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
        work: decides about the item; returns (answer, failure, news). `failure` is an error that goes to the
            caller although what was decided is written.
        flush: writes what was decided since the last time.
        rolled_back: called in the thread when nothing of the group was written.
        published: called on the loop with the news of a committed group.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        work: Callable[[Any], Done],
        flush: Callable[[], None],
        rolled_back: Callable[[], None],
        published: Callable[[list[Any]], None],
    ) -> None:
        self._db = db
        self._work = work
        self._flush = flush
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
        waiting = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]
        items = [item for item, _ in waiting]
        done = self._written(items)
        if done is None:
            done = [each for item in items for each in self._written([item], last=True) or ()]
        futures = [future for _, future in waiting]
        # RuntimeError: the loop ended while we wrote; nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._resolve, futures, done)

    def _written(self, items: list[Any], *, last: bool = False) -> list[Done] | None:
        """One transaction; None when it was rolled back, or with `last` the failure that rolled it back."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            done = [self._decided(item) for item in items]
            self._flush()
            self._db.execute("COMMIT")
        except sqlite3.Error as err:
            self._undo()
            self._healthy = isinstance(err, sqlite3.IntegrityError)
            return [Done(None, _failure(err), None)] if last else None
        self._healthy = True
        return done

    def _decided(self, item: Any) -> Done:
        try:
            return self._work(item)
        except sqlite3.Error:
            raise
        except Exception as err:  # noqa: BLE001  # the edge of a request: ours is the bug, theirs the answer
            failure = error("internal_error", f"the command failed inside: {type(err).__name__}")
            failure.__cause__ = err
            return Done(None, failure, None)

    def _undo(self) -> None:
        # sqlite3.Error: the transaction is gone already, as after a full disk.
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("ROLLBACK")
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


def _failure(err: sqlite3.Error) -> HostlerError:
    """A row that breaks the schema is our bug; anything else is the disk's."""
    if not isinstance(err, sqlite3.IntegrityError):
        return store_error(err)
    failure = error("internal_error", f"the command breaks a rule of the store: {err}")
    failure.__cause__ = err
    return failure
