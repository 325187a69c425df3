"""The audit, a page at a time (DM-08, SE-02)."""

import sqlite3
from typing import Any

from hostler.base.errors import error
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.record_rows import columns, rows
from hostler.control.store.records import AuditView, Page

_AUDIT = columns(AuditView)


def page(db: sqlite3.Connection, cursor: str, page_size: int, action: str, actor: str) -> Page[AuditView]:
    """Newest first.

    Args:
        action, actor: only lines of theirs; "" for all.
    """
    where, chosen = list[str](), list[Any]()
    if cursor:
        where.append("id < ?")
        chosen.append(_position(cursor))
    for column, value in (("action", action), ("actor", actor)):
        if value:
            where.append(f"{column} = ?")
            chosen.append(value)
    sql = f"SELECT {_AUDIT} FROM audit_logs WHERE {' AND '.join(where) or '1'} ORDER BY id DESC LIMIT ?"  # noqa: S608
    found = rows(db, AuditView, sql, (*chosen, page_limit(page_size) + 1))
    return page_of(found, page_size, lambda line: str(line.id))


def _position(cursor: str) -> int:
    text = decode_cursor(cursor)
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise error("invalid_cursor", "the cursor is of another list")
    return int(text)
