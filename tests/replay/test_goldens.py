"""The whole store after each story, byte for byte. `HOSTLER_GOLDEN=write` writes the files anew.

A change here is a change of what the control plane decides: look at the difference before you accept it.
"""

import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from replay.invariants import NOTHING_FOUND, broken
from replay.scenarios import SCENARIOS, tell

from hostler.pki.keys import FileSigner
from support.control import CountingIds, fleet_in
from support.keys import Keys

GOLDEN = Path(__file__).parent / "golden"
TABLES = (
    "nodes",
    "node_cursors",
    "operations",
    "tasks",
    "task_attempts",
    "operation_steps",
    "jobs",
    "job_tasks",
    "job_attempts",
    "node_loads",
    "job_shares",
    "stray_attempts",
    "envelopes",
    "receipts",
    "events",
)
ORDERED = {"events": "id", "receipts": "node_id, chain_index", "envelopes": "node_id, sequence"}
LEFT_OUT = {"envelope", "receipt", "inputs", "policy", "target_selector", "public_key"}


def same_keys() -> Keys:
    """Signatures by these are the same on every run."""
    made = [FileSigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in range(1, 5)]
    return replace(Keys(), root=made[0], dispatch=made[1], catalog=made[2], artifact=made[3])


def dump(db: sqlite3.Connection) -> str:
    """Rows as JSON, one a line; bytes that only repeat what a digest says are left out."""
    lines = []
    for table in TABLES:
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY {ORDERED.get(table, '1, 2, 3')}")
        names = [column[0] for column in cursor.description]
        for values in cursor:
            row = {name: _text(value) for name, value in zip(names, values, strict=True) if name not in LEFT_OUT}
            lines.append(json.dumps({"table": table} | {n: v for n, v in row.items() if v not in ("", 0, None)}))
    return "\n".join(lines) + "\n"


def _text(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


async def told(name: str, directory: Path) -> sqlite3.Connection:
    async with fleet_in(directory, keys=same_keys(), ids=CountingIds()) as fleet:
        await tell(fleet, SCENARIOS[name])
    return sqlite3.connect(directory / "control.db")


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_store_after_a_story_is_as_it_was_when_it_was_written_down(name, tmp_path) -> None:
    db = await told(name, tmp_path)
    try:
        assert broken(db) == {}
        now = dump(db)
    finally:
        db.close()
    golden = GOLDEN / f"{name}.jsonl"
    if os.environ.get("HOSTLER_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(now)
    assert now == golden.read_text()


@pytest.mark.parametrize("name", NOTHING_FOUND)
def test_every_invariant_is_a_query_that_runs(name, tmp_path) -> None:
    from hostler.control.store.db import open_writer

    db = open_writer(tmp_path / "control.db")
    assert db.execute(NOTHING_FOUND[name]).fetchall() == []
    db.close()
