"""Reading log lines: pages of an operation, and which are too old."""

import sqlite3
from typing import Any, NamedTuple

import msgspec

from hostler.control.store.records import LogView

_COLUMNS = ", ".join(f"l.{name}" for name in LogView.__struct_fields__ if name != "node_name")


class LogFilter(NamedTuple):
    """Of an operation's lines; "" and None for all. `attempt` is a number, as tasks count them."""

    step_id: str = ""
    task_index: int | None = None
    attempt: int | None = None


class Prunable(NamedTuple):
    up_to: int
    lines: int


def lines(db: sqlite3.Connection, operation_id: str, after: int, limit: int, chosen: LogFilter) -> list[LogView]:
    where, values = ["l.operation_id = ?", "l.id > ?"], list[Any]((operation_id, after))
    if chosen.step_id:
        where.append("l.step_id = ?")
        values.append(chosen.step_id)
    if chosen.task_index is not None:
        where.append("l.task_id IN (SELECT task_id FROM local_tasks WHERE operation_id = ? AND replica_index = ?)")
        values += [operation_id, chosen.task_index]
    if chosen.attempt is not None:
        where.append(
            "EXISTS (SELECT 1 FROM task_attempts a WHERE a.attempt_uid = l.attempt_uid AND a.attempt_number = ?)"
        )
        values.append(chosen.attempt)
    found = db.execute(
        f"SELECT {_COLUMNS}, coalesce(n.name, l.node_id) AS node_name FROM log_lines l"  # noqa: S608 - our own words
        f" LEFT JOIN nodes n ON n.node_id = l.node_id WHERE {' AND '.join(where)} ORDER BY l.id LIMIT ?",
        (*values, limit),
    )
    names = [column[0] for column in found.description]
    return [msgspec.convert(dict(zip(names, row, strict=True)), LogView, strict=False) for row in found]


def prunable(db: sqlite3.Connection, before_ms: int, limit: int) -> Prunable | None:
    """The oldest lines, up to the newest event of before then: ids are given in order of this clock, and a node's
    own clock decides nothing."""
    newest = _newest_event(db, before_ms)
    sql = "SELECT max(id), count(*) FROM (SELECT id FROM log_lines WHERE id <= ? ORDER BY id LIMIT ?)"
    up_to, count = db.execute(sql, (newest, limit)).fetchone()
    return Prunable(up_to, count) if count else None


def _newest_event(db: sqlite3.Connection, before_ms: int) -> int:
    """Its id, 0 for none; by halves, as events have no index by time."""
    (high,) = db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        row = db.execute("SELECT at_ms FROM events WHERE id <= ? ORDER BY id DESC LIMIT 1", (middle,)).fetchone()
        if row is None or row[0] < before_ms:
            low = middle
        else:
            high = middle - 1
    return int(low)
