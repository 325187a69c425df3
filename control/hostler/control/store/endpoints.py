"""Endpoints, and the jobs and attempts that they belong to, for readers."""

import sqlite3
from typing import Any

import msgspec

from hostler.control.store import local_tasks
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.record_rows import decoded
from hostler.control.store.records import EndpointView, Page

MOST_NAMED = 1000


class TaskCaller(msgspec.Struct, frozen=True, kw_only=True):
    """A job's task that runs now, as the one who asks."""

    org_id: str
    project_id: str
    operation_id: str
    operation_type: str
    requested_by_user_id: str
    correlation_id: str
    cancel_requested_ms: int
    inputs: dict[str, Any]
    task_id: str
    attempt_uid: str
    node_id: str
    replica_index: int
    state: str

    @property
    def job(self) -> str:
        """The job's path."""
        return str(self.inputs["job"])


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its own tree sees it."""

    job_id: str
    job: str
    parent: str
    status: str
    tasks_total: int
    tasks_queued: int
    tasks_in_flight: int
    tasks_succeeded: int
    tasks_failed: int
    tasks_canceled: int
    error_code: str
    error_message: str
    created_at_ms: int
    started_at_ms: int
    finished_at_ms: int


_JOB_STATE = f"""
    SELECT operation_id AS job_id, json_extract(inputs, '$.job') AS job, json_extract(inputs, '$.parent') AS parent,
      {", ".join(JobState.__struct_fields__[3:])} FROM operations
    WHERE operation_id = ? AND org_id = ? AND project_id = ? AND operation_type LIKE 'job.%'
"""  # noqa: S608


def caller(db: sqlite3.Connection, node_id: str, task_id: str, attempt_uid: str) -> TaskCaller | None:
    """Whose attempt that is, while it runs on that node; None otherwise."""
    asked = {"node": node_id, "task": task_id, "attempt": attempt_uid}
    cursor = db.execute(local_tasks.CALLER, asked)
    names = [column[0] for column in cursor.description]
    values = cursor.fetchone()
    return None if values is None else TaskCaller(**decoded(zip(names, values, strict=True)))


def named(
    db: sqlite3.Connection, org_id: str, project_id: str, namespace: str, name: str, now_ms: int
) -> list[EndpointView]:
    """Live ones of a namespace, by exact name (TE-17) or all for ""."""
    asked = {"org": org_id, "project": project_id, "namespace": namespace, "name": name}
    return _views(db, local_tasks.ENDPOINTS_NAMED, asked | {"now": now_ms, "limit": MOST_NAMED})


def page(
    db: sqlite3.Connection, project_id: str, namespace: str, name: str, cursor: str, page_size: int, now_ms: int
) -> Page[EndpointView]:
    """Live ones of a project, for people."""
    task, _, endpoint = decode_cursor(cursor).partition("/")
    asked: dict[str, Any] = {"project": project_id, "namespace": namespace, "name": name, "now": now_ms}
    asked |= {"task": task, "endpoint": endpoint, "limit": page_limit(page_size) + 1}
    found = _views(db, local_tasks.ENDPOINTS_SHOWN, asked)
    return page_of(found, page_size, lambda view: f"{view.task_id}/{view.endpoint_id}")


def one(db: sqlite3.Connection, project_id: str, task_id: str, endpoint_id: str, now_ms: int) -> EndpointView | None:
    """A live one."""
    asked = {"project": project_id, "task": task_id, "endpoint": endpoint_id, "now": now_ms}
    return next(iter(_views(db, local_tasks.ENDPOINT_SHOWN, asked)), None)


def over(db: sqlite3.Connection, now_ms: int) -> bool:
    return db.execute(local_tasks.ENDPOINTS_OVER, {"now": now_ms, "limit": 1}).fetchone() is not None


def job_state(db: sqlite3.Connection, org_id: str, project_id: str, job_id: str) -> JobState | None:
    """A job of the project."""
    cursor = db.execute(_JOB_STATE, (job_id, org_id, project_id))
    values = cursor.fetchone()
    if values is None or not values[1]:
        return None
    named_ = dict(zip(JobState.__struct_fields__, values, strict=True))
    return JobState(**named_ | {"parent": named_["parent"] or ""})


def _views(db: sqlite3.Connection, sql: str, asked: dict[str, Any]) -> list[EndpointView]:
    cursor = db.execute(sql, asked)
    names = [column[0] for column in cursor.description]
    wanted = set(EndpointView.__struct_fields__)
    found = (decoded(zip(names, values, strict=True)) for values in cursor)
    return [EndpointView(**{name: row[name] for name in wanted}) for row in found]
