"""DM-15 and FD-24: whatever decides about tasks sees local ones only, by an index made for it."""

import re
from pathlib import Path

import msgspec
import pytest

from hostler.control.kernel.rows import CursorRow, EnvelopeRow, Row, TaskRow
from hostler.control.store import db as store_db
from hostler.control.store import local_tasks, queries
from hostler.control.store.tables import STATEMENTS
from hostler.control.store.view import StoreView
from support.control import submit
from support.memory_view import Bench

CONTROL = Path(__file__).resolve().parents[4] / "control/hostler/control"
STATES = ("queued", "assigned", "running", "succeeded", "failed", "canceled")


@pytest.fixture
def planted(tmp_path):
    """A local task and a handed-off twin in every state, each with an envelope."""
    db = store_db.open_writer(tmp_path / "control.db")
    bench = Bench()
    node = bench.node()
    operation_id = bench.run(submit(node)).operation_id
    operation, (task,) = bench.operation(operation_id), bench.tasks(operation_id)
    put(db, node, CursorRow(node_id=node.node_id, sequence=99), operation)
    sequence = 0
    for state in STATES:
        for cluster in ("", "peer-b"):
            sequence += 1
            ended = 5 if state in STATES[3:] else 0
            row = msgspec.structs.replace(
                task,
                task_id=f"tsk_{state}_{cluster or 'local'}",
                state=state,
                child_cluster=cluster,
                sequence=sequence,
                finished_at_ms=ended,
            )
            envelope = EnvelopeRow(
                node_id=node.node_id,
                sequence=sequence,
                task_id=row.task_id,
                kind="task",
                digest="d",
                envelope=b"e",
                signed_at_ms=1,
                expires_at_ms=2,
            )
            put(db, row, envelope)
    yield db, node, operation
    db.close()


def put(db, *rows: Row) -> None:
    for row in rows:
        db.execute(STATEMENTS[type(row)].insert, STATEMENTS[type(row)].values(row))


def local_only(tasks: list[TaskRow]) -> bool:
    return bool(tasks) and all(task.child_cluster == "" for task in tasks)


def test_FD_24_no_reader_of_the_kernel_sees_a_task_that_was_handed_off(planted) -> None:
    db, node, operation = planted
    view = StoreView(db)
    assert local_only(view.tasks_of(operation.operation_id))
    assert local_only(view.open_tasks_on(node.node_id))
    assert local_only(view.overdue_tasks(operation.deadline_ms, 100))
    db.execute("UPDATE nodes SET connection = 'connected', parallel_tasks = 9")
    db.execute("UPDATE node_cursors SET accepted_sequence = 99")
    assert local_only(view.stalled_launches(2**60, -1, 100))
    assert view.get(TaskRow, "tsk_running_local") is not None
    assert view.get(TaskRow, "tsk_running_peer-b") is None


def test_FD_24_nothing_is_delivered_or_counted_for_a_task_that_was_handed_off(planted) -> None:
    db, node, _ = planted
    assert [sequence for sequence, _ in queries.undelivered(db, node.node_id, 100, 0)] == [1, 3, 5]
    assert queries.open_tasks(db) == {"queued": 1, "assigned": 1, "running": 1}


def test_people_still_see_both(planted) -> None:
    db, _, operation = planted
    shown = queries.operation(db, operation.project_id, operation.operation_id)
    assert shown is not None
    assert len(shown.tasks) == 2 * len(STATES)


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (local_tasks.OF_OPERATION, "local_tasks_by_operation"),
        (local_tasks.OPEN_ON_NODE, "local_tasks_open_on_node"),
        (local_tasks.OVERDUE, "local_tasks_open_on_node"),
        (local_tasks.UNANSWERED, "local_tasks_open_on_node"),
        (local_tasks.STALLED, "local_tasks_open_on_node"),
    ],
)
def test_DM_15_the_readers_use_the_partial_indexes(planted, sql, index) -> None:
    db = planted[0]
    named = {"now": 1, "until": 1, "after": 0, "limit": 1}
    parameters = named if ":limit" in sql else ("x",)
    plan = " | ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
    assert f"USING INDEX {index}" in plan, plan


def test_DM_15_both_indexes_are_partial_over_local_tasks(planted) -> None:
    found = dict(
        planted[0].execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql LIKE '%ON tasks%'")
    )
    assert set(found) == {"local_tasks_by_operation", "local_tasks_open_on_node"}
    assert all("WHERE child_cluster = ''" in sql for sql in found.values())


def test_DM_15_no_module_but_one_reads_the_table_of_tasks() -> None:
    raw = re.compile(r"(?i)\b(?:from|join)\s+tasks\b")
    found = [path.name for path in CONTROL.rglob("*.py") if raw.search(path.read_text())]
    assert found == ["local_tasks.py"]
    readers = {
        name for name, sql in vars(local_tasks).items() if isinstance(sql, str) and raw.search(sql) and name.isupper()
    }
    assert readers == {"SHOWN", "IDS_SHOWN", "OF_JOB_SHOWN"}


def test_DM_15_the_cache_reads_tasks_through_the_view_as_well() -> None:
    assert "local_tasks" in local_tasks.ONE
