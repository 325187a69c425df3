"""Blocking work in threads that somebody owns.

Not the loop's default executor: the parts of a pipeline wait for each other, and a shared pool of
few threads can hold all of one stage and none of the next. Daemon threads, because a disk that hangs
must not keep the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def start(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Runs `work` in a new thread; the future belongs to the running loop and is never cancelled by
    the thread. The caller makes the work end (closes its socket, sets its flag), then awaits it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, failure: BaseException | None) -> None:
        if future.done():
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T is None

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as err:  # noqa: BLE001  # handed to the owner, who raises it
            failure = err
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
