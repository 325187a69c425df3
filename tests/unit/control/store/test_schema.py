"""The first schema: DM-01..05, DM-08, DM-13..16, DM-25."""

import sqlite3

import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.rows import CatalogRow, NodeRow, OperationRow, Row, StepRow, TaskRow
from hostler.control.kernel.submit import TRIGGER_SOURCES
from hostler.control.kernel.transitions import OPERATION_STATES, TASK_STATES
from hostler.control.store import db as store_db
from hostler.control.store.tables import NAMES, STATEMENTS


@pytest.fixture
def db(tmp_path):
    connection = store_db.open_writer(tmp_path / "control.db")
    yield connection
    connection.close()


def insert(db: sqlite3.Connection, row: Row) -> None:
    db.execute(STATEMENTS[type(row)].insert, STATEMENTS[type(row)].values(row))


def node(**changes) -> NodeRow:
    values = {
        "node_id": "nod_1",
        "name": "gpu-1",
        "org_id": "acme",
        "project_id": "train",
        "public_key": b"k",
        "thumbprint": "t",
        "labels": "{}",
        "enrolled_at_ms": 1,
    }
    return NodeRow(**(values | changes))


def operation(**changes) -> OperationRow:
    text = dict.fromkeys(OperationRow.FIXED, "x")
    values = text | {
        "operation_id": "op_1",
        "mode": "apply",
        "trigger_source": "tenant_request",
        "linked_allocation_id": None,
        "linked_node_id": None,
        "policy": "{}",
        "policy_digest": "x",
        "total_steps": 1,
        "tasks_total": 1,
        "tasks_queued": 1,
        "created_at_ms": 1,
        "deadline_ms": 2,
    }
    return OperationRow(**(values | changes))


def task(**changes) -> TaskRow:
    values = {
        "task_id": "tsk_1",
        "operation_id": "op_1",
        "node_id": "nod_1",
        "replica_index": 0,
        "created_at_ms": 1,
        "attempt_uid": "att_1",
    }
    return TaskRow(**(values | changes))


@pytest.mark.parametrize("type_", list(NAMES), ids=NAMES.get)
def test_a_row_struct_has_the_columns_of_its_table_in_their_order(db, type_) -> None:
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({NAMES[type_]})")]
    assert columns == list(type_.__struct_fields__)
    key = sorted((row[5], row[1]) for row in db.execute(f"PRAGMA table_info({NAMES[type_]})") if row[5])
    if type_ != store_receipt():
        assert tuple(name for _, name in key) == type_.KEY


def store_receipt() -> type[Row]:
    """Receipts are filed by index too, so that a chain is read in order."""
    from hostler.control.kernel.rows import ReceiptRow

    return ReceiptRow


def test_every_table_but_the_views_has_a_row_struct(db) -> None:
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == set(NAMES.values())


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("operations", "status", OPERATION_STATES),
        ("operations", "trigger_source", TRIGGER_SOURCES),
        ("tasks", "state", TASK_STATES),
    ],
)
def test_DM_04_enums_are_checked_by_the_database_itself(db, table, column, values) -> None:
    insert(db, operation())
    insert(db, task())
    for value in values:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(f"UPDATE {table} SET {column} = 'other'")


@pytest.mark.parametrize("row", [operation(), task()], ids=["operation", "task"])
def test_DM_14_a_row_is_local_unless_it_says_so_and_never_both(db, row) -> None:
    insert(db, row)
    table = NAMES[type(row)]
    assert db.execute(f"SELECT child_cluster FROM {table}").fetchone() == ("",)
    db.execute(f"UPDATE {table} SET child_cluster = 'peer-b'")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(f"UPDATE {table} SET backend_id = 'pod-1'")


def test_RT_01_the_database_keeps_one_operation_for_one_key(db) -> None:
    insert(db, operation(idempotency_key="k"))
    with pytest.raises(sqlite3.IntegrityError):
        insert(db, operation(operation_id="op_2", idempotency_key="k"))
    insert(db, operation(operation_id="op_3", idempotency_key="k", org_id="rival"))


def test_OP_10_counters_that_do_not_add_up_cannot_be_stored(db) -> None:
    insert(db, operation())
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE operations SET tasks_failed = 1")


def test_PK_02_two_active_nodes_cannot_have_one_name(db) -> None:
    insert(db, node())
    with pytest.raises(sqlite3.IntegrityError):
        insert(db, node(node_id="nod_2"))
    db.execute("UPDATE nodes SET state = 'revoked'")
    insert(db, node(node_id="nod_2"))


def test_DM_05_the_step_row_has_every_column_of_the_contract() -> None:
    wanted = "attempt_number step_kind resolved_profile hardware_match status error_code duration_ms receipt_digest"
    assert set(wanted.split()) <= set(StepRow.__struct_fields__)


def test_OP_07_the_operation_row_has_every_field_of_the_contract() -> None:
    wanted = """operation_id operation_type version org_id project_id requested_by_user_id target_selector
        idempotency_key correlation_id status trigger_source linked_allocation_id linked_node_id"""
    assert set(wanted.split()) <= set(OperationRow.__struct_fields__)


def test_DM_02_the_parts_of_a_definition_are_read_out_of_the_signed_document(db) -> None:
    from support.builders import definition
    from support.memory_view import Bench

    bench = Bench()
    (row,) = bench.view.rows[type(bench.view.get(_definition_type(), "demo.write@v1"))].values()
    insert(
        db,
        CatalogRow(
            version=1, manifest=b"m", documents="[]", commands="{}", issued_ms=1, expires_ms=2, registered_at_ms=1
        ),
    )
    insert(db, row)
    parts = db.execute(
        "SELECT input_schema, step_plan, artifact_constraints, capabilities FROM operation_definition_versions"
    )
    schema, plan, artifacts, capabilities = parts.fetchone()
    assert '"additionalProperties":false' in schema
    assert '"kind":"file.render"' in plan
    assert '"require_digest":true' in artifacts
    assert capabilities == "{}"
    assert row.digest == definition().digest()


def _definition_type() -> type[Row]:
    from hostler.control.kernel.rows import DefinitionRow

    return DefinitionRow


def test_DM_25_a_second_start_migrates_nothing_and_keeps_everything(tmp_path) -> None:
    path = tmp_path / "control.db"
    first = store_db.open_writer(path)
    insert(first, node())
    first.close()
    again = store_db.open_writer(path)
    assert again.execute("SELECT count(*) FROM nodes").fetchone() == (1,)
    assert again.execute("PRAGMA user_version").fetchone() == (store_db.migrations()[-1][0],)
    again.close()


def test_DM_25_every_migration_has_a_number_of_its_own() -> None:
    numbers = [number for number, _ in store_db.migrations()]
    assert numbers[0] == 1
    assert len(set(numbers)) == len(numbers)


def test_DM_25_a_migration_that_fails_leaves_the_old_schema(tmp_path, monkeypatch) -> None:
    path = tmp_path / "control.db"
    store_db.open_writer(path).close()
    known = store_db.migrations()
    broken = "CREATE TABLE fresh (a TEXT);\nCREATE TABLE nodes (a TEXT);"
    monkeypatch.setattr(store_db, "migrations", lambda: [*known, (len(known) + 1, broken)])
    with pytest.raises(HostlerError):
        store_db.open_writer(path)
    monkeypatch.undo()
    db = store_db.open_writer(path)
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'fresh'").fetchone() == (0,)
    db.close()


def test_a_store_of_a_newer_program_a_foreign_one_and_a_damaged_one_are_refused_and_kept(tmp_path) -> None:
    newer = tmp_path / "newer.db"
    db = store_db.open_writer(newer)
    db.execute("PRAGMA user_version = 99")
    db.close()
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as other:
        other.execute("CREATE TABLE theirs (a TEXT)")
    other.close()
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"not a database at all" * 100)
    for path in (newer, foreign, damaged):
        before = path.read_bytes()
        with pytest.raises(HostlerError) as refused:
            store_db.open_writer(path)
        assert refused.value.code == "store_unavailable"
        assert path.read_bytes()[:16] == before[:16]


def test_the_store_is_synchronous_and_readable_by_its_owner_only(tmp_path) -> None:
    path = tmp_path / "control.db"
    db = store_db.open_writer(path)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert path.stat().st_mode & 0o077 == 0
    db.close()
