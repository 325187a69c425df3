"""K3, OB-07: what a container says comes to its log by its keeper, each byte once, whatever becomes of containerd."""

import asyncio
import os
from pathlib import Path

import pytest

from hostler.agent.containers import cri_pipes
from hostler.agent.containers.cri_logs import LogReader
from hostler.agent.containers.cri_noted import Notes
from hostler.agent.containers.cri_pipes import Pipes, append, give_back


class Bench:
    """A pipe that containerd has made for a container `c`, which its shim will open by `path`."""

    def __init__(self, place: Path) -> None:
        self.place, self.log = place / "keeper", place / "c.log"
        self.place.mkdir()
        self.path = place / "c-stdout"
        os.mkfifo(self.path)
        self.pipes = Pipes(self.place)

    def take(self) -> None:
        self.pipes.take("c", [("stdout", self.path)], self.log)

    def shim(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def says(self, data: bytes) -> None:
        """And ends."""
        fd = self.shim()
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


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def settled(bench: Bench) -> None:
    async with asyncio.timeout(5):
        await bench.pipes.settled("c")


async def test_OB_07_what_is_said_comes_to_the_log_while_the_container_runs(bench: Bench) -> None:
    bench.take()
    writer = bench.shim()
    for said in (b"one\ntw", b"o\n\nno newline"):
        os.write(writer, said)
        await asyncio.sleep(0.05)
    assert bench.told() == [("one", True), ("two", True), ("", True), ("no newline", False)]
    os.close(writer)
    await settled(bench)
    assert not bench.pipes.holds()


async def test_K3_containerd_reads_nothing_of_it_not_even_one_that_comes_back(bench: Bench) -> None:
    before = os.open(bench.path, os.O_RDONLY | os.O_NONBLOCK)
    bench.take()
    writer = bench.shim()
    assert not give_back([("stdout", bench.path)])
    assert not bench.path.exists(), "one that comes back makes a pipe of its own, which nobody speaks to"
    os.write(writer, b"said\n")
    await asyncio.sleep(0.05)
    assert os.read(before, 100) == b""
    os.close(before)
    os.close(writer)
    await settled(bench)
    assert bench.told() == [("said", True)]


async def test_K3_what_the_next_keeper_finds_in_a_pipe_comes_to_the_log(bench: Bench) -> None:
    (bench.place / "c.stdout").touch()
    bench.pipes.hold("c", bench.log)
    assert not bench.pipes.holds(), "that is no pipe"
    (bench.place / "c.stdout").unlink()
    os.mkfifo(bench.place / "c.stdout")
    shim = os.open(bench.place / "c.stdout", os.O_RDWR | os.O_NONBLOCK)
    os.write(shim, b"said while none was there\n")
    bench.pipes.hold("c", bench.log)
    bench.pipes.hold("c", bench.log)
    os.close(shim)
    await settled(bench)
    assert bench.told() == [("said while none was there", True)]


async def test_K3_a_pipe_whose_writer_has_gone_before_is_let_go(bench: Bench) -> None:
    """Its end is not told to one who came later."""
    os.mkfifo(bench.place / "c.stdout")
    bench.pipes.hold("c", bench.log)
    await settled(bench)
    assert not bench.pipes.holds()


async def test_K3_a_pipe_of_a_container_that_never_began_is_let_go_once_it_is_removed(bench: Bench) -> None:
    bench.take()
    bench.pipes.let_removed_go()
    await asyncio.sleep(0.05)
    assert bench.pipes.holds("c"), "it may still begin"
    Notes(bench.place).forget("c")
    bench.pipes.let_removed_go()
    await asyncio.sleep(0.05)
    assert not bench.pipes.holds()


async def test_K3_a_container_that_speaks_to_a_containerd_which_was_killed_before_the_start_is_left_to_it(
    bench: Bench, tmp_path: Path
) -> None:
    bench.take()
    assert Notes(bench.place).has_pipes("c")
    fresh = tmp_path / "again"
    os.mkfifo(fresh)
    assert give_back([("stdout", bench.path), ("stdout", fresh)])
    assert fresh.is_fifo()


async def test_K3_a_pipe_is_taken_once_and_only_a_pipe(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(bench.path)
    for name in ("file", "link", "gone"):
        bench.pipes.take("d", [("stdout", tmp_path / name)], bench.log)
    assert not bench.pipes.holds()
    assert (tmp_path / "file").read_bytes() == b"x"
    for _ in range(2):
        bench.take()
    bench.says(b"once\n")
    await settled(bench)
    assert bench.told() == [("once", True)]


async def test_K3_a_start_that_is_tried_again_by_another_pipe_is_heard(bench: Bench, tmp_path: Path) -> None:
    """A containerd that was killed at the first try makes new pipes."""
    bench.take()
    bench.says(b"of the first\n")
    await settled(bench)
    bench.path = tmp_path / "again"
    os.mkfifo(bench.path)
    bench.take()
    bench.says(b"of the second\n")
    await settled(bench)
    assert bench.told() == [("of the first", True), ("of the second", True)]


def test_K3_a_log_that_is_gone_or_a_link_is_not_written(tmp_path: Path) -> None:
    append(tmp_path / "gone" / "c.log", "stdout", b"x\n")
    (tmp_path / "c.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        append(tmp_path / "c.log", "stdout", b"x\n")
    assert [path.name for path in tmp_path.iterdir()] == ["c.log"]


def test_OB_07_half_a_record_that_a_full_disk_took_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "c.log"
    append(log, "stdout", b"before\n")
    writes = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes(fd, data[: len(data) // 2]))
    append(log, "stdout", b"lost\n")
    monkeypatch.undo()
    append(log, "stdout", b"after\n")
    assert [line.split(b" ", 3)[3] for line in log.read_bytes().splitlines()] == [b"before", b"after"]


def test_K3_old_pipes_are_cleared_away_unless_a_shim_has_them_open(tmp_path: Path) -> None:
    for name in ("a.stdout", "b.stdout"):
        os.mkfifo(tmp_path / name)
        os.utime(tmp_path / name, (0, 0))
    shim = os.open(tmp_path / "b.stdout", os.O_RDWR | os.O_NONBLOCK)
    Notes(tmp_path).forget_old(10**12)
    os.close(shim)
    assert [path.name for path in tmp_path.iterdir()] == ["b.stdout"]


def test_A5_a_log_that_no_agent_turns_away_is_turned_away_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task may write for as long as its agent is down; the last of it can be read."""
    monkeypatch.setattr(cri_pipes, "_MOST", 10_000)
    log = tmp_path / "c.log"
    for number in range(500):
        append(log, "stdout", f"{number} {'x' * 1000}\n".encode())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 30_000
    reader = LogReader(log)
    told: list[int] = []
    while lines := reader.read():
        told += [int(line.text.split()[0]) for line in lines]
    reader.close()
    assert told == list(range(told[0], 500))
    assert len(told) >= 10
