"""The one thread that writes: it takes whatever has queued up, commits once, and answers all at once."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from hostler.base.errors import HostlerError, error

T = TypeVar("T")
MAX_GROUP = 256


class _Job(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    answer: "asyncio.Future[Any]"


class _Result(NamedTuple):
    answer: "asyncio.Future[Any]"
    value: Any
    failure: BaseException | None


class Writer:
    """Group commit: `write` returns when its work is on disk, together with its neighbours'.

    Args:
        describe: turns a failed write into the error its callers get.
        committed: called on the loop after each commit (True) or failed one (False with the error).
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        describe: Callable[[sqlite3.Error], HostlerError],
        committed: Callable[[HostlerError | None], None],
    ) -> None:
        self._db = db
        self._describe = describe
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """Queues `work(db)`; it runs in the order of the calls, each in a savepoint of its own."""
        answer: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            answer.set_exception(error("storage_unhealthy", "the journal is closed"))
        else:
            self._queue.put(_Job(work, answer))
        return answer

    async def close(self) -> None:
        """Finishes what is queued, then closes the connection."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._db.close()

    def _run(self) -> None:
        open_ = True
        while open_:
            group, open_ = self._next_group()
            if not group:
                continue
            results, failure = self._commit(group)
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
                self._loop.call_soon_threadsafe(self._answer, results, failure)

    def _next_group(self) -> tuple[list[_Job], bool]:
        group: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            group.append(job)
            if len(group) == MAX_GROUP:
                return group, True
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _commit(self, group: list[_Job]) -> tuple[list[_Result], HostlerError | None]:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            results = [self._work(job) for job in group]
            db.execute("COMMIT")
        except sqlite3.Error as err:
            failure = self._describe(err)
            failure.__cause__ = err
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
            return [_Result(job.answer, None, failure) for job in group], failure
        return results, None

    def _work(self, job: _Job) -> _Result:
        """A refusal or a bug in one piece of work undoes that piece only; a sick disk undoes the group."""
        db = self._db
        db.execute("SAVEPOINT work")
        try:
            value = job.work(db)
        except (sqlite3.OperationalError, sqlite3.InternalError):
            raise
        except sqlite3.DatabaseError as err:
            if type(err) is sqlite3.DatabaseError:  # corruption; the subclasses are our own mistakes
                raise
            self._undo()
            return _Result(job.answer, None, err)
        except Exception as err:  # noqa: BLE001  the edge of the thread: the caller gets it
            self._undo()
            return _Result(job.answer, None, err)
        db.execute("RELEASE work")
        return _Result(job.answer, value, None)

    def _undo(self) -> None:
        self._db.execute("ROLLBACK TO work")
        self._db.execute("RELEASE work")

    def _answer(self, results: list[_Result], failure: HostlerError | None) -> None:
        self._committed(failure)
        for answer, value, wrong in results:
            if answer.done():
                continue
            if wrong is None:
                answer.set_result(value)
            else:
                answer.set_exception(wrong)
