"""Errors as RFC 9457 problem documents."""

from typing import Any

import msgspec
from starlette.responses import Response

from hostler.base.codes import CODES
from hostler.base.errors import HostlerError


def problem(err: HostlerError, correlation_id: str) -> Response:
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
    document |= {name: value for name, value in err.ids.items() if name != "correlation_id"}
    headers = {"www-authenticate": "Bearer"} if err.http_status == 401 else None
    return Response(msgspec.json.encode(document), err.http_status, headers, media_type="application/problem+json")
