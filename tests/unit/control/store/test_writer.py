"""One thread, one transaction for all that waits: group commit, and what a failure takes with it."""

import asyncio
import sqlite3

import pytest

from hostler.base.errors import HostlerError
from hostler.control.store.writer import Done, Writer


class Numbers:
    """A store of numbers that must differ; `boom` is a bug in the work itself."""

    def __init__(self, path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        self.held: list[int] = []
        self.rolled_back = 0
        self.news: list[list[int]] = []
        self.statements: list[str] = []
        self.db.set_trace_callback(self.statements.append)
        self.writer = Writer(self.db, self.work, self.flush, self.forget, self.news.append)

    def work(self, item) -> Done:
        if item == "boom":
            raise ZeroDivisionError
        if item == "lock":
            raise sqlite3.OperationalError("disk I/O error")
        self.held.append(item)
        return Done(item * 10, None, item)

    def flush(self) -> None:
        held, self.held = self.held, []
        self.db.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in held])

    def forget(self) -> None:
        self.held = []
        self.rolled_back += 1

    def stored(self) -> list[int]:
        return [row[0] for row in self.db.execute("SELECT n FROM numbers ORDER BY n")]

    async def all(self, *items):
        return await asyncio.gather(*(self.writer.submit(item) for item in items), return_exceptions=True)


@pytest.fixture
async def numbers(tmp_path):
    made = Numbers(tmp_path / "n.db")
    yield made
    await made.writer.close()
    made.db.close()


async def test_what_waits_together_is_one_transaction(numbers) -> None:
    assert await numbers.all(*range(100)) == [n * 10 for n in range(100)]
    assert numbers.statements.count("COMMIT") <= 3, "the first may have gone alone"
    assert [each for group in numbers.news for each in group] == list(range(100))


async def test_answers_come_only_after_the_commit(numbers) -> None:
    future = numbers.writer.submit(1)
    seen = []
    future.add_done_callback(lambda _: seen.append(numbers.statements[-1]))
    await future
    await asyncio.sleep(0)
    assert seen == ["COMMIT"]


async def test_a_bug_in_one_item_is_its_own_answer_and_nobody_elses(numbers) -> None:
    one, boom, two = await numbers.all(1, "boom", 2)
    assert (one, two) == (10, 20)
    assert isinstance(boom, HostlerError)
    assert boom.code == "internal_error"
    assert isinstance(boom.__cause__, ZeroDivisionError)
    assert numbers.stored() == [1, 2]


async def test_P3_a_row_that_breaks_a_rule_fails_alone_and_the_thread_lives(numbers) -> None:
    await numbers.writer.submit(7)
    one, seven, two = await numbers.all(1, 7, 2)
    assert (one, two) == (10, 20)
    assert isinstance(seven, HostlerError)
    assert seven.code == "internal_error"
    assert numbers.stored() == [1, 2, 7]
    assert numbers.rolled_back >= 1
    assert numbers.writer.alive
    assert await numbers.writer.submit(3) == 30


async def test_a_failing_disk_fails_the_callers_and_shows_until_a_commit_works(numbers) -> None:
    (failure,) = await numbers.all("lock")
    assert isinstance(failure, HostlerError)
    assert failure.code == "store_unavailable"
    assert not numbers.writer.alive
    assert await numbers.writer.submit(1) == 10
    assert numbers.writer.alive


async def test_close_finishes_what_was_asked_for_and_takes_nothing_more(numbers) -> None:
    futures = [numbers.writer.submit(n) for n in range(20)]
    await numbers.writer.close()
    assert [await future for future in futures] == [n * 10 for n in range(20)]
    with pytest.raises(HostlerError) as refused:
        numbers.writer.submit(99)
    assert refused.value.code == "store_unavailable"


async def test_a_caller_that_gave_up_disturbs_nobody(numbers) -> None:
    first, second = numbers.writer.submit(1), numbers.writer.submit(2)
    first.cancel()
    assert await second == 20
    assert numbers.stored() == [1, 2]
