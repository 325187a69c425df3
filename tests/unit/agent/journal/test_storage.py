"""DM-26, K4: the journal's file is sound or the agent says so; what it cannot write, it does not pretend."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.agent.admission.verdict import Admitted
from hostler.agent.journal import db, migrations
from hostler.agent.journal.journal import Journal
from hostler.base.errors import HostlerError
from support import builders
from support.agent import core
from support.clocks import StillClock
from support.keys import Keys


async def fails_to_open(path: Path) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        await Journal.open(path, StillClock())
    return caught.value


async def a_used_journal(folder: Path) -> Path:
    async with core(folder) as node:
        for _ in range(20):
            await node.run_task()
    return folder / "journal.db"


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zero_a_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(bytes(4096))


def scribble_the_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database")


def another_application(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA application_id = 7")
    other.close()


def newer_agent(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
        other.execute("UPDATE meta SET value = 99 WHERE key = 'usable_from'")
    other.close()


@pytest.mark.parametrize(
    "damage", [truncate, empty, zero_a_page, scribble_the_header, another_application, newer_agent]
)
async def test_K4_a_damaged_file_is_storage_unhealthy_and_kept_as_it_is(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = await a_used_journal(tmp_path)
    damage(path)
    before = path.read_bytes()
    failure = await fails_to_open(path)
    assert failure.code == "storage_unhealthy"
    assert str(path) in failure.message or "version 99" in failure.message
    assert path.read_bytes() == before
    assert (await fails_to_open(path)).code == "storage_unhealthy"


async def test_K4_a_directory_that_is_absent_is_storage_unhealthy(tmp_path: Path) -> None:
    assert (await fails_to_open(tmp_path / "absent" / "journal.db")).code == "storage_unhealthy"


async def test_K4_a_creation_that_was_interrupted_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "journal.db.new").write_bytes(b"half")
    journal = await Journal.open(tmp_path / "journal.db", StillClock())
    assert journal.storage == "ok"
    await journal.close()


async def test_a_new_journal_is_private_and_power_safe(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        assert (tmp_path / "journal.db").stat().st_mode & 0o777 == 0o600

        def settings(connection: sqlite3.Connection) -> tuple[str, int]:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
            return mode, synchronous

        writer, reader = db.open_pair(tmp_path / "journal.db")
        assert settings(writer) == ("wal", 2)  # 2: FULL
        writer.close()
        reader.close()
        assert node.journal.storage == "ok"


async def limit_pages(journal: Journal, extra: int) -> None:
    def limit(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + extra}")

    await journal._write(limit)


async def test_K4_a_full_disk_is_an_error_to_the_caller_a_word_in_storage_and_heals(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        admitted = node.judge(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert isinstance(admitted, Admitted)
        await limit_pages(node.journal, 0)
        with pytest.raises(HostlerError) as caught:
            await node.journal.save_catalog(b"x" * 100_000, ())
        assert caught.value.code == "disk_full"
        assert node.journal.storage == "disk_full"
        refusal = node.judge(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert refusal.error_code == "storage_unhealthy"
        await limit_pages(node.journal, 100_000)
        assert await node.journal.check() == "ok"
        assert node.journal.storage == "ok"
        await node.journal.accept(admitted)


async def test_K4_a_read_only_disk_refuses_the_acceptance_and_forgets_its_marks(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        sent = builders.envelope(node.keys, builders.task(node.keys, node.catalog))
        admitted = node.judge(sent)
        assert isinstance(admitted, Admitted)
        await node.journal._write(lambda connection: connection.execute("PRAGMA query_only = ON").fetchall())
        with pytest.raises(HostlerError) as caught:
            await node.journal.accept(admitted)
        assert caught.value.code == "storage_unhealthy"
        assert node.journal.known(admitted.spec.task_id) is None
        assert node.journal.high_sequence == 0
        assert await node.journal.check() == "storage_unhealthy"
        node.journal._writer._db.execute("PRAGMA query_only = OFF")
        assert await node.journal.check() == "ok"
        assert isinstance(await node.deliver(sent), Admitted)


async def test_K4_a_write_that_fails_takes_no_neighbour_with_it_when_it_is_our_mistake(tmp_path: Path) -> None:
    async with core(tmp_path) as node:

        def mistake(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO outbox (body) VALUES (x'00')")
            raise ValueError("ours")

        before = len(await node.outbox())
        bad, good = node.journal._write(mistake), node.journal._write(lambda _: 7)
        assert await good == 7
        with pytest.raises(ValueError, match="ours"):
            await bad
        assert len(await node.outbox()) == before
        assert node.journal.storage == "ok"


async def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db", StillClock())
    await journal.close()
    with pytest.raises(HostlerError) as caught:
        await journal.trim(1)
    assert caught.value.code == "storage_unhealthy"


def test_migrations_go_forward_from_every_version(tmp_path: Path) -> None:
    for version in range(len(migrations.MIGRATIONS) + 1):
        connection = sqlite3.connect(tmp_path / f"{version}.db", isolation_level=None)
        for number in range(version):
            migrations.MIGRATIONS[number](connection)
        connection.execute(f"PRAGMA user_version = {version}")
        migrations.migrate(connection)
        migrations.migrate(connection)
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        connection.close()
        assert found == len(migrations.MIGRATIONS)
        assert {"meta", "tasks", "steps", "checkpoints", "outbox", "chain", "refusals", "documents"} <= tables


async def test_LC_16_the_version_before_goes_on_with_the_journal_that_a_newer_one_has_added_to(tmp_path: Path) -> None:
    """A version on trial has brought a table along; the node returns, and nothing that was run is forgotten."""
    keys = Keys()
    async with core(tmp_path, keys) as node:
        spec = await node.run_task()
    (path,) = tmp_path.rglob("journal.db")
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE of_the_newer (x)")
        other.execute(f"PRAGMA user_version = {len(migrations.MIGRATIONS) + 1}")
    other.close()
    async with core(tmp_path, keys) as node:
        assert node.journal.known(spec.task_id) is not None
        await node.run_task()
        assert node.chain().ok
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (len(migrations.MIGRATIONS) + 1,)
    other.close()


async def test_DM_26_the_same_keys_open_the_same_node(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        spec = await node.run_task()
        head = node.journal.chain_head()
    async with core(tmp_path, keys) as node:
        assert node.journal.high_sequence == spec.sequence
        assert node.journal.chain_head() == head
        await node.run_task()
        assert node.chain().ok
        assert node.chain().length == 2
