"""Records from queries whose columns are named after the record's fields."""

import sqlite3
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)
_JSON = frozenset(
    {"target_selector", "inputs", "policy", "labels", "capabilities", "document", "body", "outputs", "plan"}
    | {"worker_policy", "metadata", "before", "after", "next_action", "checks", "channels", "replaces"}
)
_BOOL = frozenset({"recovered", "cancel_requested", "pool", "cordoned"})


def rows(db: sqlite3.Connection, type_: type[R], sql: str, parameters: Any = ()) -> list[R]:
    """Records from a query whose columns are named after the record's fields."""
    cursor = db.execute(sql, parameters)
    names = [column[0] for column in cursor.description]
    return [type_(**decoded(zip(names, values, strict=True))) for values in cursor]


def decoded(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Columns as fields: JSON parsed, numbers that mean yes and no as such."""
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in _JSON:
            out[name] = msgspec.json.decode(value) if value else None
        else:
            out[name] = bool(value) if name in _BOOL else value
    return out


def columns(type_: type[msgspec.Struct], *, without: tuple[str, ...] = (), table: str = "") -> str:
    """The record's fields as a list of columns."""
    prefix = f"{table}." if table else ""
    return ", ".join(f"{prefix}{name}" for name in type_.__struct_fields__ if name not in without)
