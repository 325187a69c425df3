"""Cursors of lists: opaque text that names the last item of a page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from hostler.base.errors import error
from hostler.control.store.records import Page

T = TypeVar("T")
MAX_PAGE = 1000


def page_limit(page_size: int) -> int:
    """Raises `invalid_request` for a size no page has."""
    if not 1 <= page_size <= MAX_PAGE:
        raise error("invalid_request", f"a page has 1 to {MAX_PAGE} items", pointer="/page_size")
    return page_size


def encode_cursor(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> str:
    """Raises `invalid_cursor` for text that `encode_cursor` did not make."""
    try:
        key = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError) as err:
        raise error("invalid_cursor", "the page cursor cannot be read") from err
    if encode_cursor(key) != cursor:
        raise error("invalid_cursor", "the page cursor cannot be read")
    return key


def page_of(items: Sequence[T], page_size: int, key: Callable[[T], str]) -> Page[T]:
    """A page from up to `page_size + 1` items: one more than fits says that there is a next page."""
    shown = tuple(items[:page_size])
    return Page(shown, encode_cursor(key(shown[-1])) if len(items) > page_size else "")
