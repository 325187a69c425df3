"""P5, DM-12: the control plane is killed in the middle of its work; what it answered for is there, whole."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

# Submits and folds without end, and prints an operation's id only once its answer has come.
WORK = """
import asyncio, sys
from pathlib import Path
from support.control import fleet_in

async def one(fleet, node):
    while True:
        operation_id = await fleet.submit(node, replicas=3)
        print("submitted", operation_id, flush=True)
        for spec in await fleet.take(node):
            await fleet.run(node, spec)
        print("ended", operation_id, flush=True)

async def main():
    async with fleet_in(Path(sys.argv[1])) as fleet:
        await fleet.publish()
        nodes = [await fleet.node(f"gpu-{n}") for n in range(8)]
        print("ready", flush=True)
        await asyncio.gather(*(one(fleet, node) for node in nodes))

asyncio.run(main())
"""


def killed_after(directory: Path, lines: int) -> list[tuple[str, str]]:
    """What the process had answered when it was killed."""
    environment = dict(os.environ) | {"PYTHONPATH": str(TESTS)}
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(directory)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    answered: list[tuple[str, str]] = []
    try:
        assert process.stdout.readline() == "ready\n"
        for _ in range(lines):
            what, _, operation_id = process.stdout.readline().strip().partition(" ")
            answered.append((what, operation_id))
    finally:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    whole = [line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return answered + [(what, operation_id) for what, operation_id in whole]


@pytest.mark.parametrize("lines", [1, 25, 150])
def test_P5_what_was_answered_is_stored_whole_and_nothing_is_stored_by_half(tmp_path, lines) -> None:
    answered = killed_after(tmp_path, lines)
    db = sqlite3.connect(tmp_path / "control.db")
    status = dict(db.execute("SELECT operation_id, status FROM operations"))
    assert {operation_id for _, operation_id in answered} <= set(status)
    assert all(status[operation_id] == "succeeded" for what, operation_id in answered if what == "ended")
    requested = [row[0] for row in db.execute("SELECT operation_id FROM events WHERE type = 'operation.requested'")]
    assert sorted(requested) == sorted(status), "each operation has its event, each event its operation"
    completed = {row[0] for row in db.execute("SELECT operation_id FROM events WHERE type = 'operation.completed'")}
    assert completed == {operation_id for operation_id, state in status.items() if state == "succeeded"}
    tasks = dict(db.execute("SELECT operation_id, count(*) FROM local_tasks GROUP BY operation_id"))
    assert set(tasks.values()) == {3}
    envelopes = db.execute("SELECT count(*) FROM envelopes").fetchone()
    assert envelopes == db.execute("SELECT count(*) FROM local_tasks WHERE sequence > 0").fetchone()
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


async def test_P5_after_the_kill_what_no_node_had_taken_is_sent_and_ends_once(tmp_path) -> None:
    """The store keeps no private key: the next process, with new keys here, signs again what has expired."""
    await asyncio.to_thread(killed_after, tmp_path, 40)
    from hostler.control.kernel.commands import ExpireTasks
    from support.control import FakeNode, FrozenClock, fleet_in
    from support.keys import NOW

    clock = FrozenClock(NOW + 600_000)
    async with fleet_in(tmp_path, clock=clock) as fleet:
        reader = fleet.engine.reader
        for row in (await reader.nodes(None, "train")).items:
            db = sqlite3.connect(tmp_path / "control.db")
            taken, outbox, chain = db.execute(
                "SELECT accepted_sequence, outbox_seq, chain_index FROM node_cursors WHERE node_id = ?", (row.node_id,)
            ).fetchone()
            db.close()
            node = FakeNode(row.node_id, row.name, b"", outbox=outbox, chain=chain, high_sequence=taken)
            await fleet.connect(node, "s2")
            for spec in await fleet.take(node):
                await fleet.run(node, spec)
        await fleet.execute(ExpireTasks())
        open_tasks = await reader.open_tasks()
        assert "queued" not in open_tasks
        events = await fleet.events()
        ends = [event.operation_id for event in events if event.type == "operation.completed"]
        assert len(ends) == len(set(ends)), "one terminal event each"
