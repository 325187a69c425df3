"""The catalog in force, and every document an accepted task may still need, by digest."""

import sqlite3

import msgspec

from hostler.agent.journal import meta
from hostler.base.digest import sha256_hex


def save(db: sqlite3.Connection, manifest: bytes, documents: tuple[bytes, ...]) -> None:
    digests = [sha256_hex(body) for body in documents]
    meta.put(db, meta.CATALOG, manifest)
    meta.put(db, meta.CATALOG_DOCUMENTS, msgspec.json.encode(digests))
    rows = zip(digests, documents, strict=True)
    db.executemany("INSERT OR IGNORE INTO documents (digest, body) VALUES (?, ?)", rows)


def load(db: sqlite3.Connection) -> tuple[bytes, tuple[bytes, ...]] | None:
    """What `save` got; None before the first catalog, or when a document is gone."""
    manifest, listed = meta.get(db, meta.CATALOG), meta.get(db, meta.CATALOG_DOCUMENTS)
    if manifest is None or listed is None:
        return None
    bodies = [document(db, digest) for digest in msgspec.json.decode(listed, type=list[str])]
    if any(body is None for body in bodies):
        return None
    return manifest, tuple(body for body in bodies if body is not None)


def document(db: sqlite3.Connection, digest: str) -> bytes | None:
    """None as well when the stored bytes no longer have their digest."""
    row = db.execute("SELECT body FROM documents WHERE digest = ?", (digest,)).fetchone()
    return bytes(row[0]) if row and sha256_hex(row[0]) == digest else None
