"""Jobs for people: as JSON-ready records, by read-only queries."""

import sqlite3
from operator import attrgetter
from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.catalog.job import PRIORITIES
from hostler.control.kernel.job_nodes import NAMES, Amounts, NodeState, blocked_by, facts_of, minus, need_of
from hostler.control.kernel.job_reasons import REASONS, why_not
from hostler.control.store import local_tasks
from hostler.control.store.pages import decode_cursor, encode_cursor, page_limit, page_of
from hostler.control.store.records import Page

BANDS = {number: word for word, number in PRIORITIES.items()}
STATES = ("pending", "running", "succeeded", "failed", "canceled")
_STATE = """CASE WHEN o.status = 'queued' THEN 'pending'
    WHEN o.status = 'running' AND o.tasks_in_flight = 0 THEN 'pending' ELSE o.status END"""
_WAITS = """(SELECT t.reason || ': ' || t.detail FROM job_tasks t
    WHERE t.job_id = j.job_id AND t.pending = 1 AND t.reason != '' ORDER BY t.task_index LIMIT 1)"""
_JOB = f"""
    SELECT j.job_id, j.org_id, j.project_id, j.name, j.root, j.owner, j.spec, j.priority, j.replicas, j.failures,
      j.preemptions, j.task_ms, j.created_at_ms, coalesce(p.name, '') AS parent, {_STATE} AS state,
      coalesce({_WAITS}, '') AS waits, o.started_at_ms, o.finished_at_ms, o.error_code, o.error_message,
      o.cancel_requested_ms, o.tasks_queued, o.tasks_in_flight, o.tasks_succeeded, o.tasks_failed, o.tasks_canceled
    FROM jobs j JOIN operations o ON o.operation_id = j.job_id LEFT JOIN jobs p ON p.job_id = j.parent_id
"""  # noqa: S608


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    name, parent, root: whole paths; `parent` is "" for a root job.
    reason: what it waits for, or why it failed.
    tasks: how many are in each state.
    task_seconds: how long tasks of it and of all below it have run.
    """

    job_id: str
    name: str
    parent: str
    root: str
    user: str
    state: str
    reason: str
    priority: str
    replicas: int
    tasks: dict[str, int]
    failures: int
    preemptions: int
    task_seconds: int
    cancel_requested: bool
    error_code: str
    created_at_ms: int
    started_at_ms: int
    finished_at_ms: int
    spec: Any


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """`state` `lost`: given up without the node's word. `exit_code` is null where none is known."""

    attempt_number: int
    attempt_uid: str
    state: str
    node_id: str
    node: str
    exit_code: int | None
    error_code: str
    created_at_ms: int
    started_at_ms: int
    finished_at_ms: int


class JobTaskView(msgspec.Struct, frozen=True, kw_only=True):
    task_index: int
    task_id: str
    state: str
    node_id: str
    node: str
    attempt_number: int
    attempt_uid: str
    exit_code: int | None
    error_code: str
    error_message: str
    reason: str
    failures: int
    preemptions: int
    attempts: tuple[AttemptView, ...]


class NodeCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has in all, what jobs hold of it, and what is free (BK-06)."""

    node_id: str
    node: str
    org_id: str
    project_id: str
    allocation_id: str
    connection: str
    scheduling: str
    health: str
    runtimes: tuple[str, ...]
    tasks: int
    total: dict[str, int]
    reserved: dict[str, int]
    free: dict[str, int]


def job(db: sqlite3.Connection, project_id: str, named: str) -> JobView | None:
    """By id, or by path: the one that has it now."""
    if named.startswith("/"):
        where, asked = "j.project_id = ? AND j.name = ? AND j.current = 1", (project_id, named)
    else:
        where, asked = "j.project_id = ? AND j.job_id = ?", (project_id, named)
    return next(iter(_jobs(db, f"{_JOB} WHERE {where}", asked)), None)


def jobs(
    db: sqlite3.Connection, project_id: str, cursor: str, page_size: int, prefix: str, state: str
) -> Page[JobView]:
    """Newest first; with a prefix that job and those below it."""
    where, asked = ["j.project_id = ?"], list[Any]((project_id,))
    if prefix:
        where.append("(j.name = ? OR substr(j.name, 1, ?) = ?)")
        asked += [prefix, len(prefix) + 1, f"{prefix}/"]
    if state:
        where.append(f"{_STATE} = ?")
        asked.append(state)
    if cursor:
        where.append("j.job_id < ?")
        asked.append(decode_cursor(cursor))
    sql = f"{_JOB} WHERE {' AND '.join(where)} ORDER BY j.job_id DESC LIMIT ?"
    return page_of(_jobs(db, sql, (*asked, page_limit(page_size) + 1)), page_size, attrgetter("job_id"))


def _jobs(db: sqlite3.Connection, sql: str, asked: Any) -> list[JobView]:
    return [_job(row) for row in _dicts(db, sql, asked)]


def _job(row: dict[str, Any]) -> JobView:
    return JobView(
        user=row["owner"],
        reason=row["error_message"] if row["state"] == "failed" else row["waits"],
        priority=BANDS.get(row["priority"], str(row["priority"])),
        tasks={
            "pending": row["tasks_queued"],
            "running": row["tasks_in_flight"],
            "succeeded": row["tasks_succeeded"],
            "failed": row["tasks_failed"],
            "canceled": row["tasks_canceled"],
        },
        task_seconds=row["task_ms"] // 1000,
        cancel_requested=bool(row["cancel_requested_ms"]),
        spec=msgspec.json.decode(row["spec"]),
        **{name: row[name] for name in _PLAIN},
    )


_PLAIN = (
    "job_id", "name", "parent", "root", "state", "replicas", "failures", "preemptions", "error_code", "created_at_ms",
    "started_at_ms", "finished_at_ms",
)  # fmt: skip


def tasks(db: sqlite3.Connection, job_id: str, cursor: str, page_size: int) -> Page[JobTaskView]:
    """In their order, each with the history of its attempts."""
    after = _index_in(cursor) if cursor else -1
    asked = {"job": job_id, "after": after, "limit": page_limit(page_size) + 1}
    rows = _dicts(db, local_tasks.OF_JOB_SHOWN, asked)
    shown = tuple(_task(db, row) for row in rows[:page_size])
    return Page(shown, encode_cursor(str(shown[-1].task_index)) if len(rows) > page_size else "")


def _index_in(cursor: str) -> int:
    """Raises `invalid_cursor`, also for a cursor of another list."""
    text = decode_cursor(cursor)
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise error("invalid_cursor", "the page cursor is of another list")
    return int(text)


def _task(db: sqlite3.Connection, row: dict[str, Any]) -> JobTaskView:
    attempts = _attempts(db, row["task_id"])
    state = {"queued": "pending", "assigned": "running"}.get(row["state"], row["state"])
    return JobTaskView(
        state=state,
        exit_code=attempts[-1].exit_code if attempts else None,
        reason=_reason(row),
        attempts=attempts,
        **{name: row[name] for name in _TASK},
    )


_TASK = (
    "task_index", "task_id", "node_id", "node", "attempt_number", "attempt_uid", "error_code", "error_message",
    "failures", "preemptions",
)  # fmt: skip


def _reason(row: dict[str, Any]) -> str:
    """What keeps the task where it is; "" for one that runs or has ended."""
    if row["pending"]:
        return f"{row['reason']}: {row['detail']}" if row["reason"] else ""
    if row["state"] in ("assigned", "running") and row["connection"] == "lost":
        return f"node_lost: {REASONS['node_lost']}"
    if row["leaving"]:
        return f"{row['leaving']}: it was told to end, and its node has not confirmed that yet"
    return row["waiting_for"] if row["state"] == "queued" else ""


def _attempts(db: sqlite3.Connection, task_id: str) -> tuple[AttemptView, ...]:
    sql = """SELECT a.attempt_number, a.attempt_uid, a.state, a.node_id, coalesce(n.name, a.node_id) AS node, a.exit,
               a.created_at_ms, a.started_at_ms, a.finished_at_ms, s.outputs
             FROM job_attempts h JOIN task_attempts a ON a.attempt_uid = h.attempt_uid
             LEFT JOIN nodes n ON n.node_id = a.node_id
             LEFT JOIN operation_steps s ON s.task_id = h.task_id AND s.attempt_number = h.attempt_number
               AND s.step_kind = 'container.run'
             WHERE h.task_id = ? ORDER BY h.attempt_number"""
    return tuple(
        AttemptView(exit_code=_exit_code(row.pop("outputs")), error_code=row.pop("exit"), **row)
        for row in _dicts(db, sql, (task_id,))
    )


def _exit_code(outputs: bytes | None) -> int | None:
    """As the step gave it out."""
    said = msgspec.json.decode(outputs) if outputs else None
    code = said.get("exit_code") if isinstance(said, dict) else None
    return code if isinstance(code, int) else None


def capacity(db: sqlite3.Connection, cursor: str, page_size: int) -> Page[NodeCapacity]:
    """Every node that is not revoked."""
    where = "n.state = 'active' AND n.node_id > ?"
    found = _capacity(db, where, (decode_cursor(cursor),), f" LIMIT {page_limit(page_size) + 1}")
    return page_of([shown for shown, _ in found], page_size, attrgetter("node_id"))


def fitting(db: sqlite3.Connection, job_id: str) -> list[tuple[NodeState, str]]:
    """Every node that the job may run on, and why one of its tasks does not fit there now; "" where it does."""
    sql = """SELECT j.org_id, j.project_id, j.allocation_id, j.spec, v.document FROM jobs j
             JOIN operations o ON o.operation_id = j.job_id
             LEFT JOIN operation_definition_versions v ON v.ref = o.operation_type || '@' || o.version
             WHERE j.job_id = ?"""
    org_id, project_id, allocation_id, spec, document = db.execute(sql, (job_id,)).fetchone()
    need = need_of(spec, document or "")
    where = "n.state = 'active' AND n.org_id = ? AND n.project_id = ? AND n.allocation_id = ?"
    found = []
    for shown, (labels, capabilities, hold) in _capacity(db, where, (org_id, project_id, allocation_id)):
        facts = facts_of(shown.node_id, shown.node, labels, capabilities)
        blocked = blocked_by(shown.connection, hold, shown.scheduling, shown.health)
        state = NodeState(shown.node_id, shown.node, facts, blocked)
        cpu, memory, disk, gpus, tpus = (shown.reserved[name] for name in NAMES)
        free = minus(facts.total, (cpu, memory, disk, gpus, tpus))
        found.append((state, why_not(need, state, free)))
    return found


def _capacity(
    db: sqlite3.Connection, where: str, asked: Any, limit: str = ""
) -> list[tuple[NodeCapacity, tuple[str, str, str]]]:
    sums = ", ".join(f"coalesce(l.{name}, 0) AS {name}" for name in ("tasks", *NAMES))
    sql = f"""SELECT n.node_id, n.name, n.org_id, n.project_id, n.allocation_id, n.connection, n.scheduling, n.health,
        n.labels, n.capabilities, n.hold, {sums} FROM nodes n LEFT JOIN node_loads l ON l.node_id = n.node_id
        WHERE {where} ORDER BY n.node_id{limit}"""  # noqa: S608
    found = []
    for row in _dicts(db, sql, asked):
        kept = row.pop("labels"), row.pop("capabilities"), row.pop("hold")
        facts = facts_of(row["node_id"], row["name"], kept[0], kept[1])
        reserved: Amounts = tuple(row.pop(name) for name in NAMES)
        free = {n: max(0, total - held) for n, total, held in zip(NAMES, facts.total, reserved, strict=True)}
        shown = NodeCapacity(
            node=row.pop("name"),
            runtimes=tuple(sorted(facts.runtimes)),
            total=dict(zip(NAMES, facts.total, strict=True)),
            reserved=dict(zip(NAMES, reserved, strict=True)),
            free=free,
            **row,
        )
        found.append((shown, kept))
    return found


def _dicts(db: sqlite3.Connection, sql: str, asked: Any) -> list[dict[str, Any]]:
    cursor = db.execute(sql, asked)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor]
