"""Webhooks and what is owed to them, for readers."""

import sqlite3
from typing import Any, NamedTuple

import msgspec

from hostler.base.errors import error
from hostler.control.kernel.webhook_rows import WebhookCursorRow, WebhookRow
from hostler.control.store.events import Stretch, by_id, scoped
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.records import EventView, Page, ParkedView, WebhookView
from hostler.control.store.tables import STATEMENTS

_HOOK = f"SELECT {STATEMENTS[WebhookRow].columns} FROM webhooks WHERE webhook_id = ?"  # noqa: S608
_CURSOR = f"SELECT {STATEMENTS[WebhookCursorRow].columns} FROM webhook_cursors WHERE webhook_id = ?"  # noqa: S608
_DUE = "SELECT event_id FROM webhook_parked WHERE webhook_id = ? AND state = 'due' ORDER BY event_id LIMIT ?"
_PARKED = (
    "SELECT event_id, event_type, parked_at_ms, reason, state FROM webhook_parked"
    " WHERE webhook_id = ? AND state != 'taken' AND event_id > ? ORDER BY event_id LIMIT ?"
)
_VIEW = ", ".join(WebhookView.__struct_fields__)


class Owed(NamedTuple):
    """A webhook, where it stands, and the events of its scope after that, whatever their types.

    `again` are parked events that somebody asked for once more; they go before what is new.
    """

    hook: WebhookRow
    cursor: WebhookCursorRow
    stretch: Stretch
    again: tuple[EventView, ...] = ()


def active(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT webhook_id FROM webhooks WHERE state = 'active' ORDER BY webhook_id")]


def owed(db: sqlite3.Connection, webhook_id: str, after: int, limit: int) -> Owed | None:
    """None for one that is not active. `after`: where a reader knows that it has looked already."""
    hook = _one(db, _HOOK, WebhookRow, webhook_id)
    cursor = _one(db, _CURSOR, WebhookCursorRow, webhook_id)
    if hook is None or cursor is None or hook.state != "active":
        return None
    start = max(after, cursor.position)
    due = [row[0] for row in db.execute(_DUE, (webhook_id, limit))]
    stretch = scoped(db, start, limit, hook.org_id or None, hook.project_id or None, "")
    return Owed(hook, cursor, stretch, by_id(db, due))


def parked(db: sqlite3.Connection, webhook_id: str, cursor: str, page_size: int) -> Page[ParkedView]:
    """Oldest first. Raises `invalid_cursor`."""
    said = decode_cursor(cursor)
    if said and not (said.isascii() and said.isdigit() and len(said) <= 18):
        raise error("invalid_cursor", "the cursor is of another list")
    rows = db.execute(_PARKED, (webhook_id, int(said or 0), page_limit(page_size) + 1))
    return page_of([ParkedView(*row) for row in rows], page_size, lambda view: str(view.event_id))


def in_scope(db: sqlite3.Connection, webhook_id: str, org_id: str | None, project_id: str | None) -> bool:
    """Whether there is such a webhook, as far as the caller may know."""
    hook = _one(db, _HOOK, WebhookRow, webhook_id)
    return (
        hook is not None
        and hook.state != "deleted"
        and org_id in (None, hook.org_id)
        and project_id
        in (
            None,
            hook.project_id,
        )
    )


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
