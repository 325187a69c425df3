"""Read-only queries: plain functions over a connection, called in a reader thread."""

import sqlite3
from operator import attrgetter
from typing import Any

import msgspec

from hostler.control.kernel.rows import TaskRow
from hostler.control.store import local_tasks
from hostler.control.store.axes import connection_of
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.record_rows import columns as _columns
from hostler.control.store.record_rows import decoded as _decoded
from hostler.control.store.record_rows import rows as _rows
from hostler.control.store.records import (
    AssignedTask,
    AuditView,
    DefinitionView,
    EventView,
    NodeIdentity,
    NodeReceipts,
    NodeTrust,
    NodeView,
    OperationSummary,
    OperationView,
    Page,
    Principal,
    StepView,
    TaskView,
)
from hostler.wire.codec_node import decode_envelope

_PRINCIPAL = _columns(Principal)
_EXPIRY = (
    "coalesce((SELECT max(not_after_ms) FROM certificates c WHERE c.node_id = nodes.node_id"
    " AND c.state IN ('issued', 'proved')), 0) AS certificate_expires_ms"
)
_POLICY = (
    "(SELECT json_group_array(json_object('owner', owner, 'kind', kind, 'reason', reason, 'actor', actor,"
    " 'at_ms', at_ms)) FROM worker_policies w WHERE w.node_id = nodes.node_id AND w.kind != '') AS worker_policy"
)
# clean by nobody's word but that nobody has had it
_RECLAIM = "CASE WHEN pool = 1 AND reclaim = 'clean' AND baseline_of = '' THEN 'unverified' ELSE reclaim END AS reclaim"
_APART = ("connection", "certificate_expires_ms", "worker_policy", "reclaim", "telemetry")
NODE = ", ".join((_columns(NodeView, without=_APART), connection_of(), _RECLAIM, _EXPIRY, _POLICY))
_DEFINITION = _columns(DefinitionView)
_SUMMARY = _columns(OperationSummary)
_OPERATION = _columns(OperationView, without=("tasks",))
_EVENT = _columns(EventView)
_AUDIT = _columns(AuditView)


def principal(db: sqlite3.Connection, token_sha256: str, now_ms: int) -> Principal | None:
    """Who the token is of, while it is good."""
    sql = (
        f"SELECT {_PRINCIPAL} FROM principals"  # noqa: S608
        " WHERE token_sha256 = ? AND state = 'active' AND expires_at_ms > ?"
    )
    return next(iter(_rows(db, Principal, sql, (token_sha256, now_ms))), None)


def principals(db: sqlite3.Connection, cursor: str, page_size: int) -> Page[Principal]:
    sql = f"SELECT {_PRINCIPAL} FROM principals WHERE name > ? ORDER BY name LIMIT ?"  # noqa: S608
    found = _rows(db, Principal, sql, (decode_cursor(cursor), page_limit(page_size) + 1))
    return page_of(found, page_size, attrgetter("name"))


def operation(db: sqlite3.Connection, project_id: str, operation_id: str) -> OperationView | None:
    """One operation with its tasks and their steps, if it is of that project."""
    sql = f"SELECT {_OPERATION} FROM operations WHERE operation_id = ? AND project_id = ?"  # noqa: S608
    row = db.execute(sql, (operation_id, project_id)).fetchone()
    if row is None:
        return None
    names = [name for name in OperationView.__struct_fields__ if name != "tasks"]
    return OperationView(tasks=_tasks(db, operation_id), **_decoded(zip(names, row, strict=True)))


def operation_status(db: sqlite3.Connection, project_id: str, operation_id: str) -> str:
    """ "" when there is no such operation."""
    sql = "SELECT status FROM operations WHERE operation_id = ? AND project_id = ?"
    row = db.execute(sql, (operation_id, project_id)).fetchone()
    return str(row[0]) if row else ""


def org_of_project(db: sqlite3.Connection, project_id: str) -> str:
    """ "" while the project owns neither a node nor a token for one, and never had an allocation."""
    sql = """SELECT org_id FROM nodes WHERE project_id = :project
             UNION ALL SELECT org_id FROM enrolment_tokens WHERE project_id = :project
             UNION ALL SELECT org_id FROM allocations WHERE project_id = :project LIMIT 1"""
    row = db.execute(sql, {"project": project_id}).fetchone()
    return str(row[0]) if row else ""


def _tasks(db: sqlite3.Connection, operation_id: str) -> tuple[TaskView, ...]:
    names = dict(db.execute("SELECT node_id, name FROM nodes"))
    steps = _steps(db, operation_id)
    return tuple(
        TaskView(
            node_name=names.get(row["node_id"], row["node_id"]),
            status=row["state"],
            cancel_requested=bool(row["cancel_requested"]),
            steps=tuple(steps.get(row["task_id"], ())),
            **{name: row[name] for name in _TASK_FIELDS},
        )
        for values in db.execute(local_tasks.SHOWN, (operation_id,))
        for row in [dict(zip(TaskRow.__struct_fields__, values, strict=True))]
    )


_TASK_FIELDS = tuple(
    name for name in TaskView.__struct_fields__ if name not in ("node_name", "status", "cancel_requested", "steps")
)


def _steps(db: sqlite3.Connection, operation_id: str) -> dict[str, list[StepView]]:
    wanted = _columns(StepView, table="s")
    sql = (
        f"SELECT s.task_id, {wanted} FROM ({local_tasks.IDS_SHOWN}) t"  # noqa: S608
        " JOIN operation_steps s ON s.task_id = t.task_id ORDER BY s.task_id, s.attempt_number, s.step_index"
    )
    found: dict[str, list[StepView]] = {}
    for task_id, *values in db.execute(sql, (operation_id,)):
        view = StepView(**_decoded(zip(StepView.__struct_fields__, values, strict=True)))
        found.setdefault(task_id, []).append(view)
    return found


def operations(
    db: sqlite3.Connection, project_id: str, cursor: str, page_size: int, status: str
) -> Page[OperationSummary]:
    """Newest first."""
    where, parameters = ["project_id = ?"], [project_id]
    if cursor:
        where.append("operation_id < ?")
        parameters.append(decode_cursor(cursor))
    if status:
        where.append("status = ?")
        parameters.append(status)
    sql = (
        f"SELECT {_SUMMARY} FROM operations WHERE {' AND '.join(where)}"  # noqa: S608
        " ORDER BY operation_id DESC LIMIT ?"
    )
    found = _rows(db, OperationSummary, sql, (*parameters, page_limit(page_size) + 1))
    return page_of(found, page_size, attrgetter("operation_id"))


def nodes(
    db: sqlite3.Connection, org_id: str | None, project_id: str | None, cursor: str, page_size: int
) -> Page[NodeView]:
    where, parameters = ["node_id > ?"], [decode_cursor(cursor)]
    for column, value in (("org_id", org_id), ("project_id", project_id)):
        if value is not None:
            where.append(f"{column} = ?")
            parameters.append(value)
    sql = f"SELECT {NODE} FROM nodes WHERE {' AND '.join(where)} ORDER BY node_id LIMIT ?"  # noqa: S608
    found = _rows(db, NodeView, sql, (*parameters, page_limit(page_size) + 1))
    return page_of(found, page_size, attrgetter("node_id"))


def node(db: sqlite3.Connection, node_id_or_name: str) -> NodeView | None:
    """By id, else by name: the active one, else the last that had it."""
    sql = (
        f"SELECT {NODE} FROM nodes WHERE node_id = :name OR name = :name"  # noqa: S608
        " ORDER BY node_id = :name DESC, state, enrolled_at_ms DESC LIMIT 1"
    )
    return next(iter(_rows(db, NodeView, sql, {"name": node_id_or_name})), None)


def node_identity(db: sqlite3.Connection, node_id: str) -> NodeIdentity | None:
    sql = (
        f"SELECT node_id, name, thumbprint, public_key, state = 'revoked', org_id, project_id, {_EXPIRY}"  # noqa: S608
        " FROM nodes WHERE node_id = ?"
    )
    row = db.execute(sql, (node_id,)).fetchone()
    if row is None:
        return None
    found, name, thumbprint, public_key, revoked, org_id, project_id, expires_ms = row
    return NodeIdentity(found, name, thumbprint, public_key, bool(revoked), org_id, project_id, expires_ms)


def runner_key(db: sqlite3.Connection, node_id: str) -> bytes:
    row = db.execute("SELECT spki FROM runner_keys WHERE node_id = ?", (node_id,)).fetchone()
    return bytes(row[0]) if row else b""


def certificate(db: sqlite3.Connection, node_id: str, serial: str) -> str:
    """`issued`, `proved`, `superseded`, `revoked`, or "" for one we never recorded."""
    row = db.execute("SELECT state FROM certificates WHERE node_id = ? AND serial = ?", (node_id, serial)).fetchone()
    return str(row[0]) if row else ""


def definitions(db: sqlite3.Connection, cursor: str, page_size: int) -> Page[DefinitionView]:
    sql = (
        f"SELECT {_DEFINITION} FROM operation_definition_versions"  # noqa: S608
        " WHERE ref > ? ORDER BY ref LIMIT ?"
    )
    found = _rows(db, DefinitionView, sql, (decode_cursor(cursor), page_limit(page_size) + 1))
    return page_of(found, page_size, attrgetter("ref"))


def definition(db: sqlite3.Connection, ref: str) -> DefinitionView | None:
    sql = f"SELECT {_DEFINITION} FROM operation_definition_versions WHERE ref = ?"  # noqa: S608
    return next(iter(_rows(db, DefinitionView, sql, (ref,))), None)


def events(db: sqlite3.Connection, after: int, limit: int, operation_id: str, project_id: str) -> list[EventView]:
    """In order of their ids."""
    where, chosen = ["id > ?"], list[Any]((after,))
    for column, value in (("operation_id", operation_id), ("project_id", project_id)):
        if value:
            where.append(f"{column} = ?")
            chosen.append(value)
    if operation_id:
        where.append("operation_id != ''")  # names the partial index
    sql = f"SELECT {_EVENT} FROM events WHERE {' AND '.join(where)} ORDER BY id LIMIT ?"  # noqa: S608
    return _rows(db, EventView, sql, (*chosen, limit))


def audit(db: sqlite3.Connection, after: int, limit: int) -> list[AuditView]:
    sql = f"SELECT {_AUDIT} FROM audit_logs WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608
    return _rows(db, AuditView, sql, (after, limit))


def undelivered(db: sqlite3.Connection, node_id: str, limit: int, after: int) -> list[tuple[int, bytes]]:
    parameters = {"node": node_id, "after": after, "limit": limit}
    return db.execute(local_tasks.UNDELIVERED, parameters).fetchall()


def envelope(db: sqlite3.Connection, project_id: str, operation_id: str, node: str) -> bytes:
    """The newest signed bytes of an operation's task for a node (its name or id), b"" for none."""
    parameters = {"project": project_id, "operation": operation_id, "node": node}
    row = db.execute(local_tasks.ENVELOPE, parameters).fetchone()
    return bytes(row[0]) if row else b""


def open_tasks(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute(local_tasks.OPEN_COUNTS).fetchall())


def catalog(db: sqlite3.Connection) -> tuple[int, bytes, tuple[bytes, ...]] | None:
    """The newest: version, manifest (DSSE JSON), documents in the manifest's order."""
    row = db.execute(
        "SELECT version, manifest, documents FROM catalogs ORDER BY registered_at_ms DESC, version DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    digests: list[str] = msgspec.json.decode(row[2])
    bodies = dict(
        db.execute(
            "SELECT digest, body FROM catalog_documents WHERE digest IN (SELECT value FROM json_each(?))", (row[2],)
        )
    )
    return row[0], row[1], tuple(bodies[digest] for digest in digests)


def receipts(db: sqlite3.Connection, operation_id: str, only_node: str) -> list[NodeReceipts]:
    """The whole chain of each node concerned: a chain with a hole proves nothing."""
    if only_node:
        chosen = [only_node]
    elif operation_id:
        sql = "SELECT DISTINCT node_id FROM receipts WHERE operation_id = ? ORDER BY node_id"
        chosen = [row[0] for row in db.execute(sql, (operation_id,))]
    else:
        sql = "SELECT node_id FROM node_cursors WHERE chain_index >= 0 ORDER BY node_id"
        chosen = [row[0] for row in db.execute(sql)]
    found = []
    for node_id in chosen:
        identity = node_identity(db, node_id)
        if identity is None:
            continue
        certificate = db.execute(
            "SELECT pem FROM certificates WHERE node_id = ? AND thumbprint = ? AND pem != ''"
            " ORDER BY issued_at_ms DESC LIMIT 1",
            (node_id, identity.thumbprint),
        ).fetchone()
        rows = db.execute("SELECT receipt FROM receipts WHERE node_id = ? ORDER BY chain_index, at_ms", (node_id,))
        found.append(
            NodeReceipts(
                node_id=node_id,
                name=identity.name,
                public_key=identity.public_key,
                thumbprint=identity.thumbprint,
                certificate=certificate[0] if certificate else "",
                receipts=tuple(row[0] for row in rows),
            )
        )
    return found


def meta(db: sqlite3.Connection, name: str) -> str:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def trust_of_nodes(db: sqlite3.Connection) -> list[NodeTrust]:
    sql = f"""
        SELECT node_id, name, {connection_of()}, keyset_version, catalog_version, {_EXPIRY},
          coalesce((SELECT pem FROM certificates c WHERE c.node_id = nodes.node_id AND c.state = 'proved'
                    ORDER BY issued_at_ms DESC LIMIT 1), '') AS certificate_pem
        FROM nodes WHERE state = 'active' ORDER BY name
    """  # noqa: S608
    return _rows(db, NodeTrust, sql)


def sequence(db: sqlite3.Connection, node_id: str) -> int:
    row = db.execute("SELECT sequence FROM node_cursors WHERE node_id = ?", (node_id,)).fetchone()
    return int(row[0]) if row else 0


def assigned(db: sqlite3.Connection) -> list[AssignedTask]:
    found = db.execute(local_tasks.SIGNED).fetchall()
    return [AssignedTask(id_, of, node_, state, _signers(signed)) for id_, of, node_, state, signed in found]


def _signers(envelope: bytes) -> str:
    return " ".join(signature.keyid for signature in decode_envelope(envelope).signatures)
