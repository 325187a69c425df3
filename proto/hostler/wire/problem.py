"""Errors as RFC 9457 problem documents, wherever HTTP or its like is spoken."""

from typing import Any

from hostler.base.codes import CODES
from hostler.base.errors import HostlerError

MEDIA_TYPE = "application/problem+json"


def problem_document(err: HostlerError, correlation_id: str = "") -> dict[str, Any]:
    """`title` is the code's meaning, `detail` what happened this time, `hint` what to do."""
    document: dict[str, Any] = {
        "type": f"https://hostler.dev/errors/{err.code}",
        "title": CODES[err.code].meaning,
        "status": err.http_status,
        "detail": err.message,
        "error_code": err.code,
        "hint": err.hint,
        "correlation_id": err.ids.get("correlation_id") or correlation_id,
    }
    if err.pointer:
        document["pointer"] = err.pointer
    return document | {name: value for name, value in err.ids.items() if name != "correlation_id"}
