"""DM-25: a store made by any earlier schema opens with the newest one, and every row in it is what it was."""

import hashlib
import re
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.control.store import db as store_db
from hostler.control.store.tables import NAMES

# What was shipped: a migration is followed by another one, never edited, or stores that have it differ for ever.
SHIPPED = {
    1: "82509681340be97f",
    2: "f6f800f4c9b5d4e1",
    3: "5c0ddb2b0496b372",
    4: "1306bcf9aff26b92",
    5: "ebd90659df067de2",
    6: "b8c3630865e94616",
    7: "acfccfebf7217c85",
    8: "c3917d2e33f02e9b",
    9: "6d064173c72be943",
    10: "c4194380ef3b9cb8",
    11: "156b8a13dd3d7141",
    12: "97f28ed89e105d3f",
    13: "0c0e8fd803924f7e",
    14: "8872c3648f6db33c",
    15: "c0607a9b4880c98c",
    16: "b5200c64591daed8",
    17: "128f33d82f7adc18",
    18: "9e30c9c88feb3659",
    19: "bf4dfce98fc9e03f",
}
NEWEST = store_db.migrations()[-1][0]
# Where a made-up value would break a rule of the table, or is read as JSON.
SPECIAL: dict[tuple[str, str], Any] = {
    ("operations", "tasks_total"): 5,  # one in each state
    ("operations", "child_cluster"): "",
    ("tasks", "child_cluster"): "",
    ("operation_definition_versions", "document"): '{"inputs":{},"steps":[],"artifacts":{},"capabilities":{}}',
}


def made_with(path: Path, version: int) -> sqlite3.Connection:
    """A store of that schema, as the program of its time left it."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA application_id = {store_db.APPLICATION_ID}")
    for number, sql in store_db.migrations()[:version]:
        db.executescript(f"BEGIN;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")
    return db


def tables(db: sqlite3.Connection) -> dict[str, str]:
    sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    return dict(db.execute(sql).fetchall())


def columns(db: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    return [(row[1], row[2]) for row in db.execute(f"PRAGMA table_info({table})")]


def filled(db: sqlite3.Connection) -> None:
    """One row in every table; every id is the same, so that all of them belong together."""
    for table, sql in tables(db).items():
        values = [value_of(table, name, type_, sql) for name, type_ in columns(db, table)]
        marks = ", ".join("?" * len(values))
        names = ", ".join(name for name, _ in columns(db, table))
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)


def value_of(table: str, name: str, type_: str, sql: str) -> Any:
    if (table, name) in SPECIAL:
        return SPECIAL[table, name]
    choices = re.search(rf"\b{name} TEXT NOT NULL[^,]*?CHECK \(\s*{name} IN \(\s*([^)]*)\)", sql)
    if choices:
        return re.findall(r"'([^']*)'", choices[1])[-1]
    return {"TEXT": "x", "INTEGER": 1, "BLOB": b"x", "REAL": 1.0}[type_]


def rows(db: sqlite3.Connection, table: str, names: list[str]) -> list[Any]:
    return db.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()


def test_DM_25_a_shipped_migration_is_never_edited() -> None:
    found = {number: hashlib.sha256(sql.encode()).hexdigest()[:16] for number, sql in store_db.migrations()}
    assert {number: found[number] for number in SHIPPED} == SHIPPED


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_DM_25_a_store_of_an_earlier_schema_keeps_every_row(version: int, tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    old = made_with(path, version)
    filled(old)
    before = {table: [name for name, _ in columns(old, table)] for table in tables(old)}
    kept = {table: rows(old, table, names) for table, names in before.items()}
    assert all(len(found) == 1 for found in kept.values())
    old.close()
    db = store_db.open_writer(path)
    assert db.execute("PRAGMA user_version").fetchone() == (NEWEST,)
    assert set(before) <= set(tables(db))
    assert {table: rows(db, table, names) for table, names in before.items()} == kept
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    for type_, table in NAMES.items():  # and what reads them today can
        names = type_.__struct_fields__
        for row in rows(db, table, list(names)):
            msgspec.convert(dict(zip(names, row, strict=True)), type_)
    db.close()


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_DM_25_an_upgraded_store_has_the_shape_of_a_new_one(version: int, tmp_path: Path) -> None:
    made_with(tmp_path / "old.db", version).close()
    upgraded, fresh = store_db.open_writer(tmp_path / "old.db"), store_db.open_writer(tmp_path / "new.db")
    assert tables(upgraded) == tables(fresh)
    for table in tables(fresh):
        assert columns(upgraded, table) == columns(fresh, table)
    upgraded.close()
    fresh.close()
