"""Code bundles, for readers."""

import sqlite3
from typing import Any

from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.records import BundleView, Page

_VIEW = ", ".join(BundleView.__struct_fields__)
_OWN = f"SELECT {_VIEW} FROM bundles WHERE state = 'held' AND org_id = ? AND project_id = ?"  # noqa: S608


def one(db: sqlite3.Connection, org_id: str, project_id: str, sha256: str) -> BundleView | None:
    row = db.execute(f"{_OWN} AND sha256 = ?", (org_id, project_id, sha256)).fetchone()
    return None if row is None else _view(row)


def page(db: sqlite3.Connection, org_id: str, project_id: str, cursor: str, page_size: int) -> Page[BundleView]:
    asked = (org_id, project_id, decode_cursor(cursor), page_limit(page_size) + 1)
    rows = db.execute(f"{_OWN} AND sha256 > ? ORDER BY sha256 LIMIT ?", asked)
    return page_of([_view(row) for row in rows], page_size, lambda view: view.sha256)


def kept_bytes(db: sqlite3.Connection, org_id: str, project_id: str) -> int:
    sql = "SELECT coalesce(sum(size_bytes), 0) FROM bundles WHERE state = 'held' AND org_id = ? AND project_id = ?"
    return int(db.execute(sql, (org_id, project_id)).fetchone()[0])


def keys(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """All that are held, by (org_id, project_id, sha256)."""
    return set(db.execute("SELECT org_id, project_id, sha256 FROM bundles WHERE state = 'held'"))


def _view(row: Any) -> BundleView:
    return BundleView(**dict(zip(BundleView.__struct_fields__, row, strict=True)))
