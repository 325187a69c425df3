"""OB-09: measurements of nodes are bounded, kept apart from what is decided, and dropped without a trace."""

import math
import sqlite3
import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from hostler.base.errors import HostlerError
from hostler.control.loops.samples import SampleFiler
from hostler.control.samples import LEAST_S, MOST_NODES, MOST_WAITING, STALE_MS, NodeGauges, SampleBoard
from hostler.control.store.samples import SampleFile
from hostler.wire.node import Sample
from support.control import FrozenClock
from support.keys import NOW

HOUR_MS = 3_600_000
SAMPLE = Sample(at_ms=1, cpu_percent=12.5, load_1m=0.5, memory_used_bytes=3, memory_total_bytes=4)


class Kept:
    """A board, its file and its filer, under a clock that stands still."""

    def __init__(self, folder: Path, *, most_rows: int = 1000, **board: int) -> None:
        self.clock = FrozenClock()
        self.board = SampleBoard(self.clock, **board)
        self.path = folder / "telemetry.db"
        self.file = SampleFile(self.path)
        self.filer = SampleFiler(self.board, self.file, self.clock, HOUR_MS, most_rows)

    async def measured(self, times: int = 1, node: str = "nod_1") -> None:
        for _ in range(times):
            self.board.put(node, SAMPLE)
            self.clock.move(int(LEAST_S * 1000))
        await self.filer.file()

    def times(self, node: str = "nod_1", since: int = 0, until: int = 10**15) -> list[int]:
        return [each.at_ms for each in self.file.page(node, since, until, "", 1000).items]


async def test_OB_09_they_come_back_in_pages_and_for_a_span_of_time(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.measured(5)
    await kept.measured(1, "nod_2")
    every = kept.times()
    assert every == [NOW + i * 10_000 for i in range(5)]
    first = kept.file.page("nod_1", 0, 10**15, "", 2)
    second = kept.file.page("nod_1", 0, 10**15, first.next_cursor, 2)
    third = kept.file.page("nod_1", 0, 10**15, second.next_cursor, 2)
    assert [each.at_ms for page in (first, second, third) for each in page.items] == every
    assert third.next_cursor == ""
    assert kept.times(since=every[1], until=every[3]) == every[1:4]
    assert first.items[0].cpu_percent == 12.5
    assert first.items[0].gpu_percent is None, "what nobody could tell is not there"


async def test_OB_09_a_node_cannot_flood(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for _ in range(1000):
        kept.board.put("nod_1", SAMPLE)
    assert (kept.board.taken, kept.board.dropped) == (1, 999)
    assert len(kept.board.drain()) == 1


async def test_OB_09_what_waits_is_bounded_however_long_nobody_files_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(MOST_NODES + 100):
        kept.board.put(f"nod_{number}", SAMPLE)
    assert (kept.board.taken, kept.board.dropped) == (MOST_NODES, 100)
    kept.clock.move(10_000)
    for number in range(50):
        kept.board.put(f"nod_{number}", SAMPLE)
    waiting = kept.board.drain()
    assert len(waiting) == MOST_WAITING
    assert waiting[-1].node_id == "nod_49", "the oldest go first"


async def test_OB_09_nonsense_is_unknown_and_the_node_s_clock_files_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.board.put("nod_1", Sample(at_ms=2**62, cpu_percent=math.nan, load_1m=math.inf, memory_used_bytes=2**63 - 1))
    await kept.filer.file()
    (found,) = kept.file.page("nod_1", 0, 10**15, "", 10).items
    assert (found.at_ms, found.cpu_percent, found.load_1m, found.memory_used_bytes) == (NOW, None, None, None)


async def test_OB_09_old_ones_go_and_too_many_go(tmp_path: Path) -> None:
    kept = Kept(tmp_path, most_rows=3)
    await kept.measured(5)
    await kept.filer.prune()
    assert len(kept.times()) == 3
    kept.clock.move(HOUR_MS)
    await kept.measured(1)
    await kept.filer.prune()
    assert kept.times() == [NOW + 50_000 + HOUR_MS]


@pytest.mark.parametrize("how", ["file", "table", "garbage"])
async def test_OB_09_the_file_may_be_taken_away_while_it_is_used(tmp_path: Path, how: str) -> None:
    kept = Kept(tmp_path)
    await kept.measured(2)
    if how == "table":
        db = sqlite3.connect(kept.path)
        db.execute("DROP TABLE samples")
        db.commit()
        db.close()
    else:
        for path in tmp_path.iterdir():
            path.unlink()
    if how == "garbage":
        kept.path.write_bytes(b"no database at all" * 1000)
    await kept.measured(1)
    await kept.measured(1)
    assert len(kept.times()) == (1 if how == "garbage" else 2), "a damaged file costs what came while it was found out"


async def test_OB_09_a_disk_that_takes_nothing_costs_measurements_and_no_more(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "gone")
    await kept.measured(3)
    await kept.filer.prune()
    assert kept.board.newest("nod_1") is not None
    with pytest.raises(HostlerError):
        kept.file.page("nod_1", 0, 1, "", 1)


async def test_OB_04_so_many_nodes_have_series_and_no_more(tmp_path: Path) -> None:
    kept = Kept(tmp_path, shown=3)
    for number in range(9):
        kept.board.put(f"nod_{number}", SAMPLE)
    registry = CollectorRegistry()
    registry.register(NodeGauges(kept.board))
    text = generate_latest(registry).decode()
    lines = [line for line in text.splitlines() if line.startswith("hostler_node_cpu_percent{")]
    assert lines == [f'hostler_node_cpu_percent{{node_id="nod_{n}"}} 12.5' for n in range(3)]
    assert "hostler_node_gpu_percent{" not in text, "what is not known has no series"
    assert 'hostler_node_samples{result="taken"} 9.0' in text
    kept.clock.move(STALE_MS + 1)
    kept.board.forget_stale()
    assert "hostler_node_cpu_percent{" not in generate_latest(registry).decode(), "a silent node's series end"


async def test_readers_and_the_filer_take_turns(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.measured(50)
    failures: list[Exception] = []

    def read() -> None:
        try:
            for _ in range(50):
                kept.file.page("nod_1", 0, 10**15, "", 100)
        except Exception as err:
            failures.append(err)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    await kept.measured(20)
    for thread in threads:
        thread.join()
    assert failures == []
