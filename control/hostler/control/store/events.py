"""The event log as one scope may see it, a bounded stretch at a time (API-23)."""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from hostler.control.store.records import EventView

STRETCH = 20_000  # rows looked at in one query: a scope with few events among many does not hold a reader up
_COLUMNS = ", ".join(EventView.__struct_fields__)


class Stretch(NamedTuple):
    """`seen` is the id up to which the log was looked through; `is_last` when nothing lies beyond it."""

    events: tuple[EventView, ...]
    seen: int
    is_last: bool


def scoped(
    db: sqlite3.Connection, after: int, limit: int, org_id: str | None, project_id: str | None, type_: str
) -> Stretch:
    """What lies behind `after`, in order of ids.

    Args:
        org_id, project_id: only theirs; None for everybody's.
        type_: one type, or a family such as `node`; "" for all.
    """
    where, chosen = ["id > ?", "id <= ?"], list[Any]((after, after + STRETCH))
    for column, value in (("org_id", org_id), ("project_id", project_id)):
        if value is not None:
            where.append(f"{column} = ?")
            chosen.append(value)
    if type_:
        where.append("(type = ? OR substr(type, 1, ?) = ?)")
        chosen += [type_, len(type_) + 1, f"{type_}."]
    sql = f"SELECT {_COLUMNS} FROM events WHERE {' AND '.join(where)} ORDER BY id LIMIT ?"  # noqa: S608
    newest = db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0]
    found = tuple(_view(values) for values in db.execute(sql, (*chosen, limit)))
    seen = found[-1].id if len(found) == limit else min(after + STRETCH, newest)
    return Stretch(found, max(after, seen), seen >= newest)


def by_id(db: sqlite3.Connection, ids: Sequence[int]) -> tuple[EventView, ...]:
    """Those that the log has, in its order."""
    marks = ", ".join("?" * len(ids))
    sql = f"SELECT {_COLUMNS} FROM events WHERE id IN ({marks}) ORDER BY id"  # noqa: S608
    return tuple(_view(values) for values in db.execute(sql, tuple(ids)))


def _view(values: tuple[Any, ...]) -> EventView:
    named = dict(zip(EventView.__struct_fields__, values, strict=True))
    return EventView(**named | {"body": msgspec.json.decode(named["body"])})
