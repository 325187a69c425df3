"""Page sizes, and the cursor of log lines; the store makes the cursors of its own lists."""

from typing import Any

from hostler.base.errors import error
from hostler.control.api.call import Call
from hostler.control.store.checkpoints import cursor_after
from hostler.control.store.pages import decode_cursor, encode_cursor
from hostler.control.store.records import Page

DEFAULT_SIZE, MAX_SIZE = 100, 1000
NO_END = 10**15  # Unix milliseconds, later than anything


def size_of(text: str) -> int:
    """Raises `invalid_request` for anything but 1 to 1000."""
    if not text:
        return DEFAULT_SIZE
    if not (text.isascii() and text.isdigit() and len(text) <= 4) or not 1 <= int(text) <= MAX_SIZE:
        raise error("invalid_request", f"page_size must be a number from 1 to {MAX_SIZE}")
    return int(text)


def number(call: Call, name: str) -> int | None:
    """A query parameter that counts something, None where it is absent. Raises `invalid_request`."""
    text = call.query(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise error("invalid_request", f"{name} must be a number", pointer=f"/{name}")
    return int(text)


def moment_of(text: str, default: int) -> int:
    """Unix milliseconds. Raises `invalid_request`."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise error("invalid_request", "a moment is given in Unix milliseconds")
    return int(text)


def log_position(cursor: str) -> int:
    """The id after which a page of log lines begins. Raises `invalid_cursor`."""
    position = decode_cursor(cursor).removeprefix("log:") if cursor else "0"
    if not (position.isascii() and position.isdigit()) or len(position) > 18:
        raise error("invalid_cursor", "the cursor is of another list")
    return int(position)


def checkpoint_cursor(after: str) -> str:
    """The cursor of the page after checkpoint `after`. Raises `invalid_request`."""
    if not after:
        return ""
    if not (after.isascii() and after.isdigit()) or len(after) > 18:
        raise error("invalid_request", "after must be the index of a checkpoint", pointer="/after")
    return cursor_after(int(after))


def log_page(lines: list[Any], size: int) -> Page[Any]:
    """`lines` may be one longer than the page: then there is a next one."""
    shown = tuple(lines[:size])
    return Page(shown, encode_cursor(f"log:{shown[-1].id}") if len(lines) > size else "")
