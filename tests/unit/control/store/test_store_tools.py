"""What an operator asks of a store: stats, check, backup (PG-02: sqlite-utils inspects it)."""

import sqlite3
import stat
from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.control.main import main
from hostler.control.store import db as store_db
from hostler.control.store import tools


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "control.db"
    db = store_db.open_writer(path)
    db.execute("INSERT INTO meta VALUES ('cluster_id', 'east')")
    db.close()
    return path


def test_PG_02_the_stats_count_rows_and_bytes_of_each_table(store: Path) -> None:
    found = tools.stats(store)
    by_name = {table.table: table for table in found.tables}
    assert by_name["meta"].rows == 1
    assert by_name["nodes"].rows == 0
    assert "nodes_owner" in by_name["nodes"].indexes
    assert found.schema == store_db.migrations()[-1][0]
    assert by_name["meta"].bytes != 0


def test_a_whole_store_has_no_faults_and_a_broken_reference_is_named(store: Path) -> None:
    assert tools.check(store) == []
    db = sqlite3.connect(store, isolation_level=None)
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute("INSERT INTO certificates VALUES ('nobody', '1', 't', 'issued', 0, 0, 0, 0, '')")
    db.close()
    assert tools.check(store) == ["row 1 of certificates points at no row of nodes"]


def test_a_damaged_page_is_seen(store: Path) -> None:
    db = sqlite3.connect(store)
    (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'nodes_owner'").fetchone()
    db.close()
    with store.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    assert tools.check(store)


def test_a_backup_is_one_moment_of_a_store_that_is_being_written(store: Path, tmp_path: Path) -> None:
    writer = store_db.open_writer(store)
    writer.execute("BEGIN")
    writer.execute("INSERT INTO meta VALUES ('half', 'done')")
    copy = tmp_path / "copy.db"
    assert tools.backup(store, copy) == copy.stat().st_size
    writer.execute("COMMIT")
    writer.close()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    db = store_db.open_writer(copy)  # a control plane can start on it
    assert db.execute("SELECT name FROM meta").fetchall() == [("cluster_id",)]
    db.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_nothing_is_written_over(store: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    with pytest.raises(HostlerError, match="exists"):
        tools.backup(store, there)
    assert there.read_text() == "mine"


@pytest.mark.parametrize("content", [None, b"", b"not a database, by far", b"SQLite format 3\x00"])
def test_what_is_no_store_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.db"
    if content is not None:
        path.write_bytes(content)
    for work in (tools.stats, tools.check):
        with pytest.raises(HostlerError) as refused:
            work(path)
        assert refused.value.code == "store_unavailable"


def test_the_commands_say_what_they_found(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hostler.control.store_commands._path", lambda _: store)
    assert main(["store", "check"]) == 0
    assert main(["store", "stats"]) == 0
    assert main(["store", "backup", str(tmp_path / "b.db")]) == 0
    said = capsys.readouterr().out
    assert "the store is whole" in said
    assert "meta" in said
    assert "wrote" in said
    assert main(["store", "backup", str(tmp_path / "b.db")]) == 1
    assert "exists" in capsys.readouterr().err
