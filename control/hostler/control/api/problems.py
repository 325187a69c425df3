"""Errors as HTTP answers."""

import msgspec
from starlette.responses import Response

from hostler.base.errors import HostlerError
from hostler.wire.problem import MEDIA_TYPE, problem_document


def problem(err: HostlerError, correlation_id: str) -> Response:
    headers = {"www-authenticate": "Bearer"} if err.http_status == 401 else None
    body = msgspec.json.encode(problem_document(err, correlation_id))
    return Response(body, err.http_status, headers, media_type=MEDIA_TYPE)
