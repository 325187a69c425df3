"""Webhooks and what is owed to them, for readers."""

import sqlite3
from typing import Any, NamedTuple

import msgspec

from hostler.control.kernel.webhook_rows import WebhookCursorRow, WebhookRow
from hostler.control.store.events import Stretch, scoped
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.records import Page, WebhookView
from hostler.control.store.tables import STATEMENTS

_HOOK = f"SELECT {STATEMENTS[WebhookRow].columns} FROM webhooks WHERE webhook_id = ?"  # noqa: S608
_CURSOR = f"SELECT {STATEMENTS[WebhookCursorRow].columns} FROM webhook_cursors WHERE webhook_id = ?"  # noqa: S608
_VIEW = ", ".join(WebhookView.__struct_fields__)


class Owed(NamedTuple):
    """A webhook, where it stands, and the events of its scope after that, whatever their types."""

    hook: WebhookRow
    cursor: WebhookCursorRow
    stretch: Stretch


def active(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT webhook_id FROM webhooks WHERE state = 'active' ORDER BY webhook_id")]


def owed(db: sqlite3.Connection, webhook_id: str, after: int, limit: int) -> Owed | None:
    """None for one that is not active. `after`: where a reader knows that it has looked already."""
    hook = _one(db, _HOOK, WebhookRow, webhook_id)
    cursor = _one(db, _CURSOR, WebhookCursorRow, webhook_id)
    if hook is None or cursor is None or hook.state != "active":
        return None
    start = max(after, cursor.position)
    return Owed(hook, cursor, scoped(db, start, limit, hook.org_id or None, hook.project_id or None, ""))


def newest_event(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])


def newest_trial(db: sqlite3.Connection, webhook_id: str) -> int:
    """The id of its last webhook.test event; read from the end, where it stands when somebody has just asked."""
    sql = "SELECT id FROM events WHERE type = 'webhook.test' AND resource_name = ? ORDER BY id DESC LIMIT 1"
    row = db.execute(sql, (f"webhooks/{webhook_id}",)).fetchone()
    return int(row[0]) if row else 0


def page(
    db: sqlite3.Connection, org_id: str | None, project_id: str | None, cursor: str, page_size: int
) -> Page[WebhookView]:
    where, parameters = ["state != 'deleted'", "webhook_id > ?"], list[Any]((decode_cursor(cursor),))
    for column, value in (("org_id", org_id), ("project_id", project_id)):
        if value is not None:
            where.append(f"{column} = ?")
            parameters.append(value)
    sql = (
        f"SELECT {_VIEW} FROM webhooks JOIN webhook_cursors USING (webhook_id)"  # noqa: S608
        f" WHERE {' AND '.join(where)} ORDER BY webhook_id LIMIT ?"
    )
    rows = db.execute(sql, (*parameters, page_limit(page_size) + 1))
    found = [_view(values) for values in rows]
    return page_of(found, page_size, lambda view: view.webhook_id)


def _view(values: tuple[Any, ...]) -> WebhookView:
    named = dict(zip(WebhookView.__struct_fields__, values, strict=True))
    return WebhookView(**named | {"types": tuple(msgspec.json.decode(named["types"], type=list[str]))})


def _one(db: sqlite3.Connection, sql: str, type_: Any, key: str) -> Any:
    values = db.execute(sql, (key,)).fetchone()
    return None if values is None else type_(**dict(zip(type_.__struct_fields__, values, strict=True)))
