"""Where a transfer stood, and proof of what was on disk then.

A mark is the SHA-256 of everything up to an offset, taken from the running whole-file hash and saved
only after that much was synced. Resuming reads the partial file again anyway (a hash cannot be
stored), and compares it at every mark on the way: what was altered behind a mark is dropped, what
stands before it is kept. So no byte is hashed twice for its own chunk.
"""

from typing import Any

import msgspec

from hostler.agent.fetch.ranges import Validator
from hostler.base.digest import sha256_hex

MAX_MARKS = 128


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """`sha256` is of the bytes [0, offset)."""

    offset: int
    sha256: str


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Goes to the journal as plain JSON.

    Attributes:
        source: SHA-256 of the URL; the URL itself may hold a signature and is not kept.
        total: length of the whole object, 0 while unknown.
        marks: by rising offset.
    """

    source: str
    etag: str = ""
    last_modified: str = ""
    total: int = 0
    marks: tuple[Mark, ...] = ()

    @property
    def validator(self) -> Validator:
        return Validator(self.etag, self.last_modified)

    @property
    def offset(self) -> int:
        return self.marks[-1].offset if self.marks else 0

    def with_mark(self, mark: Mark) -> "Checkpoint":
        """Keeps the newest, and thins out the older ones: at most `MAX_MARKS` remain."""
        kept = self.marks
        if len(kept) >= MAX_MARKS:
            kept = kept[0::2]
        return msgspec.structs.replace(self, marks=(*kept, mark))

    def to_json(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))


def source_of(url: str) -> str:
    return sha256_hex(url.encode())


def resumable(saved: dict[str, Any], url: str) -> Checkpoint:
    """The saved checkpoint if it may be continued, else an empty one.

    It may when it is of the same source, holds something, and names a validator that makes a range
    request conditional: without one, two versions of the object could be joined.
    """
    empty = Checkpoint(source=source_of(url))
    try:
        found = msgspec.convert(saved, Checkpoint)
    except msgspec.ValidationError:
        return empty
    offsets = [mark.offset for mark in found.marks]
    rising = all(low < high for low, high in zip([0, *offsets], offsets, strict=False))
    within = not found.total or not offsets or offsets[-1] <= found.total
    sound = rising and within and found.source == empty.source and bool(found.validator.if_range())
    return found if sound and offsets else empty
