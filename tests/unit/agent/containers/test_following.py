"""OB-07, P9: who follows a log is woken by what is written and by the end, and asks nobody meanwhile."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.agent.containers import following, logs
from hostler.agent.containers.cri_logs import LogReader, lines
from hostler.agent.containers.following import Following
from hostler.agent.containers.runtime import Line, State, Status
from hostler.agent.host import inotify
from hostler.agent.host.inotify import Writes
from hostler.base.errors import HostlerError, error

ENDED = Status(state=State.EXITED)


@pytest.fixture(autouse=True)
def told_or_never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited for a tick here would wait for longer than a test may."""
    monkeypatch.setattr(following, "_TOLD_PAUSE_S", 3600.0)


class Container:
    """One log, its followers, and how often the runtime was asked whether it has ended."""

    def __init__(self, folder: Path) -> None:
        self.log, self.book = folder / "task.log", Following()
        self.end: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.asked = 0

    def say(self, text: str, tag: str = "F") -> None:
        with self.log.open("a") as file:
            file.write(f"2026-11-22T10:00:00.{self.log.stat().st_size:09d}Z stdout {tag} {text}\n")

    def wait(self) -> "asyncio.Task[Status]":
        return asyncio.ensure_future(self.book.waited("c", lambda: asyncio.shield(self.end)))

    async def follow(self) -> AsyncIterator[str]:
        async def ended() -> bool:
            self.asked += 1
            return self.end.done()

        with self.book.follower("c", self.log) as follower:
            async for line in lines(LogReader(self.log), ended, follower):
                yield line.text


async def test_a_write_and_the_end_wake_a_follower_which_asks_nobody(tmp_path: Path) -> None:
    one, heard = Container(tmp_path), asyncio.Queue[str]()

    async def listen() -> None:
        async for text in one.follow():
            heard.put_nowait(text)

    waiting = one.wait()
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        listening = asyncio.ensure_future(listen())
        for text in ("first", "second"):
            await asyncio.sleep(0.05)
            one.say(text)
            assert await heard.get() == text
        one.log.rename(one.log.with_name("task.log.1"))
        one.say("after a turn")
        assert await heard.get() == "after a turn"
        one.say("no newline", "P")
        one.end.set_result(ENDED)
        await asyncio.gather(listening, waiting)
    assert (heard.get_nowait(), one.asked) == ("no newline", 0)


async def test_a_follower_that_comes_after_the_end_was_heard_of_reads_all(tmp_path: Path) -> None:
    one = Container(tmp_path)
    one.say("all")
    one.end.set_result(ENDED)
    await one.wait()
    assert [text async for text in one.follow()] == ["all"]
    assert one.asked, "nobody waits any more, so the runtime is asked"


async def test_where_nobody_waits_for_the_end_the_runtime_is_asked(tmp_path: Path) -> None:
    one = Container(tmp_path)
    one.say("x")
    asyncio.get_running_loop().call_later(0.1, one.end.set_result, ENDED)
    async with asyncio.timeout(10):
        assert [text async for text in one.follow()] == ["x"]
    assert one.asked > 1


async def test_a_waiter_that_gives_up_leaves_its_followers_asking(tmp_path: Path) -> None:
    one = Container(tmp_path)
    one.say("x")
    waiting = one.wait()
    await asyncio.sleep(0)

    async def fail() -> None:
        await asyncio.sleep(0.05)
        assert one.asked == 0
        one.end.set_exception(error("container_missing", "gone"))

    async with asyncio.timeout(10):
        failing = asyncio.ensure_future(fail())
        assert [text async for text in one.follow()] == ["x"]
        await failing
    with pytest.raises(HostlerError):
        await waiting
    assert one.asked


async def test_a_directory_that_cannot_be_watched_is_looked_at(tmp_path: Path) -> None:
    one = Container(tmp_path / "later")
    waiting, heard = one.wait(), list[str]()
    await asyncio.sleep(0)

    async def listen() -> None:
        heard.extend([text async for text in one.follow()])

    async with asyncio.timeout(10):
        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0.05)
        one.log.parent.mkdir()
        one.log.touch()
        one.say("there")
        await asyncio.sleep(0.5)
        one.end.set_result(ENDED)
        await asyncio.gather(waiting, listening)
    assert heard == ["there"]


async def test_P9_one_queue_of_the_kernel_serves_all_and_stays_until_it_is_closed(tmp_path: Path) -> None:
    """The kernel takes 10 to 20 ms to close one, which no end of a container has to wait for."""
    writes, wakes, before = Writes(), [asyncio.Event(), asyncio.Event()], queues()
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with writes.below(folders[0], wakes[0]) as first, writes.below(folders[1], wakes[1]) as second:
        assert (first, second) == (True, True)
        assert queues() == before + 1
        (folders[1] / "x").touch()
        async with asyncio.timeout(5):
            await wakes[1].wait()
        assert not wakes[0].is_set()
    with writes.below(tmp_path / "none", wakes[0]) as watched:
        assert not watched
    assert queues() == before + 1
    with writes.below(folders[0], wakes[0]) as first:
        wakes[0].clear()
        (folders[0] / "y").touch()
        async with asyncio.timeout(5):
            await wakes[0].wait()
        assert queues() == before + 1
    writes.close()
    assert queues() == before


def queues() -> int:
    return sum(_target(link) == "anon_inode:inotify" for link in Path("/proc/self/fd").iterdir())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_what_the_kernel_tells_is_read_whatever_names_stand_in_it() -> None:
    told = struct.pack("iIII16s", 3, 2, 0, 16, b"task.log") + struct.pack("iIII", -1, 0x4000, 0, 0)
    assert inotify._watches(told) == {3, inotify._OVERFLOW}


class Spoken:
    """A runtime whose container says two lines and ends."""

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        for number in ("1", "2"):
            yield Line("stdout", number, True, number)
            await asyncio.sleep(0.01)


async def test_a_line_waits_for_its_neighbours_and_not_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_GATHER_S", 3600.0)
    batches: list[list[str]] = []

    class To:
        def log_cursor(self, phase: str) -> str:
            return ""

        async def log_batch(self, lines: list[Line], phase: str) -> None:
            batches.append([line.text for line in lines])

    async with asyncio.timeout(10):
        await logs.ship(Spoken(), "c", "main", To())  # type: ignore[arg-type]
    assert batches == [["1", "2"]]
