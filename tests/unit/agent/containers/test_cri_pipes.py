"""K3, OB-07: what a container said while containerd was away comes to its log, each byte once."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.agent.containers.cri_logs import LogReader
from hostler.agent.containers.cri_pipes import Pipes, append


class Bench:
    """A pipe of a container `c`, with one who writes; `is_read` is whether containerd lives."""

    def __init__(self, place: Path) -> None:
        self.path, self.log = place / "c-stdout", place / "c.log"
        os.mkfifo(self.path)
        self.is_read = False
        self.pipes = Pipes(lambda: self.is_read)

    def hold(self) -> None:
        self.pipes.hold("c", [("stdout", self.path)], self.log)

    def says(self, data: bytes) -> None:
        """And ends: the caller holds the other side."""
        fd = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, data)
        os.close(fd)

    def told(self) -> list[tuple[str, bool]]:
        if not self.log.exists():
            return []
        reader = LogReader(self.log)
        try:
            return [(line.text, line.whole) for line in [*reader.read(), *reader.finish()]]
        finally:
            reader.close()


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.pipes.run())
        try:
            yield
        finally:
            task.cancel()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def settled(bench: Bench) -> None:
    async with asyncio.timeout(5):
        await bench.pipes.settled("c")


async def test_K3_last_words_that_nobody_reads_come_to_the_log(bench: Bench) -> None:
    async with running(bench):
        bench.hold()
        bench.says(b"one\ntwo\nno newline")
        await settled(bench)
    assert bench.told() == [("one", True), ("two", True), ("no newline", False)]
    assert not bench.pipes.holds()


async def test_K3_what_containerd_reads_is_left_to_it(bench: Bench) -> None:
    bench.is_read = True
    async with running(bench):
        bench.hold()
        reader = os.open(bench.path, os.O_RDONLY | os.O_NONBLOCK)
        bench.says(b"for containerd\n")
        await asyncio.sleep(0.1)
        assert bench.pipes.holds("c")
        assert os.read(reader, 100) == b"for containerd\n"
        os.close(reader)
        await settled(bench)
    assert bench.told() == []


async def test_K3_nothing_is_read_while_the_container_runs(bench: Bench) -> None:
    async with running(bench):
        bench.hold()
        writer = os.open(bench.path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, b"said\n")
        await asyncio.sleep(0.1)
        assert bench.told() == []
        os.close(writer)
        await settled(bench)
    assert bench.told() == [("said", True)]


async def test_K3_a_pipe_whose_writer_has_gone_before_is_let_go(bench: Bench) -> None:
    """Its end is not told to one who came later; another writer's end is."""
    async with running(bench):
        before = os.open(bench.path, os.O_RDONLY | os.O_NONBLOCK)
        bench.says(b"late\n")
        bench.hold()
        os.close(before)
        bench.path.unlink()  # as a containerd that was killed at it leaves it
        await settled(bench)
    assert bench.told() == [("late", True)]


async def test_K3_a_pipe_of_a_container_that_never_began_is_let_go_once_it_is_removed(bench: Bench) -> None:
    async with running(bench):
        bench.hold()
        bench.pipes.let_removed_go()
        await asyncio.sleep(0.05)
        assert bench.pipes.holds("c"), "it may still begin"
        bench.path.unlink()
        bench.pipes.let_removed_go()
        await asyncio.sleep(0.05)
        assert not bench.pipes.holds()


async def test_K3_a_pipe_is_held_once_and_only_a_pipe(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(bench.path)
    for name in ("file", "link", "gone"):
        bench.pipes.hold("c", [("stdout", tmp_path / name)], bench.log)
    assert not bench.pipes.holds()
    async with running(bench):
        bench.hold()
        bench.hold()
        bench.says(b"once\n")
        await settled(bench)
    assert bench.told() == [("once", True)]


def test_K3_a_log_that_is_gone_or_a_link_is_not_written(tmp_path: Path) -> None:
    append(tmp_path / "gone" / "c.log", "stdout", b"x\n")
    (tmp_path / "c.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        append(tmp_path / "c.log", "stdout", b"x\n")
    assert [path.name for path in tmp_path.iterdir()] == ["c.log"]
