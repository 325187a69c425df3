"""Server-sent events: rows and ids from the store, so that `Last-Event-ID` resumes without gap or repeat."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from hostler.base.errors import error

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
COMMENT = b": still here\n\n"


def event(name: str, data: Any, event_id: int | str = "") -> bytes:
    """One event; `data` as JSON on one line."""
    head = f"id: {event_id}\n" if event_id != "" else ""
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def respond(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)


def last_event_id(text: str) -> int:
    """0 without one. Raises `invalid_cursor`."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise error("invalid_cursor", "Last-Event-ID is not one this server gave out")
    return int(text)
