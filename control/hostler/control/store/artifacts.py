"""Read-only queries over what operations took in and gave out."""

import sqlite3
from operator import attrgetter

from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.records import ArtifactView, Page

_FIELDS = tuple(name for name in ArtifactView.__struct_fields__ if name not in ("node_name", "downloadable"))
_COLUMNS = ", ".join(f"a.{name}" for name in _FIELDS)


def page(db: sqlite3.Connection, operation_id: str, cursor: str, page_size: int) -> Page[ArtifactView]:
    """In the order of their ids."""
    sql = (
        f"SELECT {_COLUMNS}, coalesce(n.name, a.node_id), length(a.content) > 0 FROM operation_artifacts a"  # noqa: S608
        " LEFT JOIN nodes n ON n.node_id = a.node_id WHERE a.operation_id = ? AND a.artifact_id > ?"
        " ORDER BY a.artifact_id LIMIT ?"
    )
    rows = db.execute(sql, (operation_id, decode_cursor(cursor), page_limit(page_size) + 1))
    found = [
        ArtifactView(**dict(zip(_FIELDS, values, strict=True)), node_name=node_name, downloadable=bool(held))
        for *values, node_name, held in rows
    ]
    return page_of(found, page_size, attrgetter("artifact_id"))


def content(db: sqlite3.Connection, operation_id: str, artifact_id: str) -> tuple[bytes, str]:
    """Content and SHA-256 of one of the operation's artifacts; b"" where there is none to give."""
    sql = "SELECT content, sha256 FROM operation_artifacts WHERE operation_id = ? AND artifact_id = ?"
    row = db.execute(sql, (operation_id, artifact_id)).fetchone()
    return (bytes(row[0]), str(row[1])) if row else (b"", "")
