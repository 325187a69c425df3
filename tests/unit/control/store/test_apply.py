"""DM-12: state and the events that describe it are one transaction, each row written once."""

import sqlite3

import pytest

from hostler.control.kernel.agent_rows import ChannelRow
from hostler.control.kernel.commands import FoldReports, RevokeNode
from hostler.control.kernel.log_rows import LogRow
from hostler.control.kernel.model import Decision
from hostler.control.kernel.rows import EventRow, NodeRow, OperationRow, TaskRow
from hostler.control.store import db as store_db
from hostler.control.store import view as view_module
from hostler.control.store.apply import EVERYTHING, Applier
from hostler.control.store.view import StoreView
from hostler.wire.report import LogLine, Report, TaskReport, TaskStatus
from support.control import ADMIN, submit
from support.memory_view import Bench


class Store:
    """A view and an applier over a fresh file, with a kernel beside it that decides."""

    def __init__(self, path) -> None:
        self.db = store_db.open_writer(path)
        self.db.execute("BEGIN")
        self.view = StoreView(self.db)
        self.applier = Applier(self.db, self.view)
        self.statements: list[str] = []
        self.db.set_trace_callback(self.statements.append)
        self.bench = Bench()

    def count(self, start: str) -> int:
        return sum(sql.startswith(start) for sql in self.statements)


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "control.db")
    yield made
    made.db.close()


def ended(task: TaskRow) -> FoldReports:
    report = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.SUCCEEDED)
    line = LogLine(
        task_id=task.task_id,
        attempt_uid=task.attempt_uid,
        step_id="s",
        step_index=0,
        stream="stdout",
        text="t",
        at_ms=1,
    )
    return FoldReports(node_id=task.node_id, reports=(Report(1, line), Report(2, report)))


def test_a_task_made_and_ended_in_one_group_is_one_insert(store) -> None:
    submitted = store.bench.decide(submit(store.bench.node()))
    store.applier.add(submitted)
    (task,) = store.bench.tasks(submitted.result.operation_id)
    store.applier.add(store.bench.decide(ended(task)))
    assert store.statements == [], "nothing is written before it has to be"
    store.applier.flush()
    assert store.count("INSERT INTO tasks") == 1
    assert store.count("UPDATE tasks") == 0
    assert store.db.execute("SELECT state FROM local_tasks").fetchone() == ("succeeded",)
    assert store.db.execute("SELECT status FROM operations").fetchone() == ("succeeded",)


def test_a_query_sees_what_was_decided_before_it(store) -> None:
    submitted = store.bench.decide(submit(store.bench.node()))
    store.applier.add(submitted)
    assert len(store.view.tasks_of(submitted.result.operation_id)) == 1
    assert store.view.operation_by_key("acme", "train", "nothing") is None


def test_rows_that_no_longer_fit_the_cache_are_written_first(store, monkeypatch) -> None:
    monkeypatch.setattr(view_module, "MAX_CACHED", 1)
    nodes = [store.bench.node() for _ in range(5)]
    submitted = store.bench.decide(submit(*nodes))
    store.applier.add(submitted)
    store.applier.flush()
    assert store.db.execute("SELECT count(*) FROM local_tasks").fetchone() == (5,)
    assert store.db.execute("SELECT count(*) FROM events").fetchone() == (1,)
    for task in store.bench.tasks(submitted.result.operation_id):
        assert store.view.get(TaskRow, task.task_id) == task


def test_events_and_log_lines_share_one_rising_scale(store) -> None:
    submitted = store.bench.decide(submit(store.bench.node()))
    first = store.applier.add(submitted)
    operation_id = submitted.result.operation_id
    (task,) = store.bench.tasks(operation_id)
    second = store.applier.add(store.bench.decide(ended(task)))
    assert first[operation_id] < second[operation_id]
    assert second[EVERYTHING] == 4
    store.applier.flush()
    events = [row[0] for row in store.db.execute("SELECT id FROM events ORDER BY id")]
    lines = [row[0] for row in store.db.execute("SELECT id FROM log_lines")]
    assert sorted(events + lines) == [1, 2, 3, 4]
    store.applier.reset()
    assert store.applier.add(store.bench.decide(submit(store.bench.node())))[EVERYTHING] == 5


def test_what_was_rolled_back_is_forgotten_everywhere(store) -> None:
    submitted = store.bench.decide(submit(store.bench.node()))
    store.applier.add(submitted)
    store.applier.flush()
    store.db.execute("ROLLBACK")
    store.view.forget()
    store.applier.reset()
    assert store.view.get(OperationRow, submitted.result.operation_id) is None
    assert store.applier.add(store.bench.decide(submit(store.bench.node())))[EVERYTHING] == 1


def test_a_rows_fixed_columns_are_never_updated(store) -> None:
    node = store.bench.node()
    store.bench.decide(submit(node))
    from hostler.control.kernel.model import Decision

    store.applier.add(Decision(inserts={NodeRow: [node]}))
    store.applier.flush()
    store.applier.add(store.bench.decide(RevokeNode(actor=ADMIN, node_id=node.node_id)))
    store.statements.clear()
    store.applier.flush()
    update = next(sql for sql in store.statements if sql.startswith("UPDATE nodes"))
    assert "enrolled_at_ms" not in update
    assert "pool" not in update
    assert store.db.execute("SELECT state FROM nodes").fetchone() == ("revoked",)


def test_events_without_an_operation_wake_only_those_who_follow_everything(store) -> None:
    from hostler.control.kernel.model import Decision

    topics = store.applier.add(Decision(events=[EventRow(at_ms=1, type="node.lost")], logs=list[LogRow]()))
    assert topics == {EVERYTHING: 1}


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 10**30])
def test_P3_a_number_that_sqlite_cannot_hold_is_refused_as_the_database_refuses(store, value: int) -> None:
    """Raised as anything else it would end the thread that writes."""
    row = ChannelRow(channel="stable", version="1.0.0", changed_at_ms=value, changed_by="admin")
    store.applier.add(Decision(inserts={ChannelRow: [row]}))
    with pytest.raises(sqlite3.IntegrityError):
        store.applier.flush()
