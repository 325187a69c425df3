"""Every list has a cursor and a page size. A cursor is opaque, and only good for the list it came from."""

import base64
import binascii
from typing import Any

from hostler.base.errors import error
from hostler.control.store.records import Page

DEFAULT_SIZE, MAX_SIZE = 100, 1000


def size_of(text: str) -> int:
    """Raises `invalid_request` for anything but 1 to 1000."""
    if not text:
        return DEFAULT_SIZE
    if not text.isdigit() or not 1 <= int(text[:6]) <= MAX_SIZE:
        raise error("invalid_request", f"page_size must be a number from 1 to {MAX_SIZE}")
    return int(text)


def encode(kind: str, position: str | int) -> str:
    return base64.urlsafe_b64encode(f"{kind}:{position}".encode()).decode().rstrip("=")


def decode(kind: str, cursor: str) -> str:
    """The position, "" without a cursor. Raises `invalid_cursor`."""
    if not cursor:
        return ""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError) as err:
        raise error("invalid_cursor", "the cursor cannot be read") from err
    found, _, position = text.partition(":")
    if found != kind or not position or encode(kind, position) != cursor:
        raise error("invalid_cursor", "the cursor is of another list")
    return position


def log_position(cursor: str) -> int:
    """The id after which a page of log lines begins. Raises `invalid_cursor`."""
    position = decode("log", cursor) or "0"
    if not position.isdigit() or len(position) > 18:
        raise error("invalid_cursor", "the cursor cannot be read")
    return int(position)


def page(kind: str, found: Page[Any]) -> dict[str, Any]:
    return {"items": found.items, "next_cursor": encode(kind, found.next) if found.next else ""}


def log_page(lines: list[Any], size: int) -> dict[str, Any]:
    """`lines` may be one longer than the page: then there is a next one."""
    shown = lines[:size]
    return {"items": shown, "next_cursor": encode("log", shown[-1].id) if len(lines) > size else ""}
