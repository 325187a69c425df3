"""Group commit: many writes, few commits, each answered when it is on disk."""

import asyncio
import sqlite3
import threading
from pathlib import Path

from hostler.agent.journal.writer import MAX_GROUP, Writer
from hostler.base.errors import HostlerError, error


def describe(err: sqlite3.Error) -> HostlerError:
    return error("disk_full", str(err).lower())


async def test_writes_that_queue_up_behind_a_slow_one_share_one_commit(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    db.execute("CREATE TABLE t (n INTEGER)")
    commits: list[HostlerError | None] = []
    writer = Writer(db, describe, commits.append)
    gate = threading.Event()
    first = writer.write(lambda _: gate.wait())
    rest = [writer.write(lambda c, n=n: c.execute("INSERT INTO t VALUES (?)", (n,)).rowcount) for n in range(200)]
    gate.set()
    await first
    assert await asyncio.gather(*rest) == [1] * 200
    assert len(commits) <= 3
    await writer.close()


async def test_a_group_is_bounded_and_order_is_kept(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    db.execute("CREATE TABLE t (n INTEGER)")
    commits: list[HostlerError | None] = []
    writer = Writer(db, describe, commits.append)
    count = MAX_GROUP * 2 + 1
    await asyncio.gather(
        *(writer.write(lambda c, n=n: c.execute("INSERT INTO t VALUES (?)", (n,)).rowcount) for n in range(count))
    )
    found = await writer.write(lambda c: [row[0] for row in c.execute("SELECT n FROM t ORDER BY rowid")])
    assert found == list(range(count))
    assert len(commits) >= 3
    await writer.close()


async def test_a_sick_disk_fails_the_whole_group(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    db.execute("CREATE TABLE t (n BLOB)")
    writer = Writer(db, describe, lambda _: None)
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
    gate = threading.Event()
    held = writer.write(lambda _: gate.wait())
    small = writer.write(lambda c: c.execute("INSERT INTO t VALUES (x'00')").rowcount)
    large = writer.write(lambda c: c.execute("INSERT INTO t VALUES (zeroblob(100000))").rowcount)
    gate.set()
    results = await asyncio.gather(held, small, large, return_exceptions=True)
    assert isinstance(results[2], HostlerError)
    assert await writer.write(lambda c: c.execute("SELECT count(*) FROM t").fetchone()[0]) in (0, 1)
    await writer.close()


async def test_a_caller_that_gave_up_does_not_disturb_the_others(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    writer = Writer(db, describe, lambda _: None)
    gate = threading.Event()
    gone, stays = writer.write(lambda _: gate.wait()), writer.write(lambda _: 3)
    gone.cancel()
    gate.set()
    assert await stays == 3
    await writer.close()
