"""Packages of the agent for nodes: signed metadata for anybody, a package for whoever has its short-lived address.

Neither needs a token: what is served is public, signed, and judged by the node (API-18, LC-12). Ranges are served, so
that a download that was cut goes on where it ended.
"""

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.api.call import Parts
from hostler.control.api.problems import problem
from hostler.control.api.ranges import Span, span_of
from hostler.control.delivery.packages import Packages
from hostler.control.kernel.package_urls import METADATA, PACKAGES, check

_log = get_logger("hostler.control.api.packages")
_CHUNK = 1 << 18
LEAST_RATE = 64 << 10  # bytes in a second; who reads slower, for so long, makes room and goes on by a range
GRACE_S = 60.0
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


def package_routes(parts: Parts) -> list[Route]:
    """None where this control plane keeps no packages."""
    if parts.packages is None:
        return []
    serving = _Serving(parts, parts.packages)
    return [
        Route(METADATA, serving.metadata, methods=["GET"]),
        Route(f"{PACKAGES}/{{token}}/{{file}}", serving.package, methods=["GET"]),
    ]


class _Serving:
    def __init__(self, parts: Parts, packages: Packages) -> None:
        self._engine = parts.engine
        self._packages = packages

    async def metadata(self, request: Request) -> Response:
        try:
            document = self._packages.metadata()
        except HostlerError as err:
            return problem(err, "")
        if not document:
            return problem(error("not_found", "no release of the agent is published here"), "")
        etag = f'"{hashlib.sha256(document).hexdigest()}"'
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"etag": etag})
        return Response(document, media_type="application/json", headers=_HEADERS | {"etag": etag})

    async def package(self, request: Request) -> Response:
        try:
            return await self._package(request)
        except HostlerError as err:
            _log.info("package.refused", error_code=err.code, file=request.path_params["file"][:200])
            return problem(err, "")

    async def _package(self, request: Request) -> Response:
        token, file = request.path_params["token"], request.path_params["file"]
        settings = self._engine.agents
        run_id = check(settings.url_key, token, file, self._engine.clock.now_ms())
        run = await self._engine.reader.agents.run(run_id)
        if run is None or run.finished_at_ms:
            raise error("package_url_expired", f"the address of {file} has ended with run {run_id}")
        sha256 = await self._engine.reader.agents.package(file)
        if not sha256:
            raise error("not_found", "the package was withdrawn")
        size, etag = self._packages.size(sha256), f'"{sha256}"'
        span = span_of(request.headers.get("range", ""), request.headers.get("if-range", ""), etag, size)
        _log.info("package.sent", run_id=run_id, node_id=run.node_id, file=file, first=span.first, bytes=span.length)
        return _Sent(
            self._packages,
            GRACE_S + span.length / LEAST_RATE,
            _chunks(self._packages, sha256, span),
            status_code=206 if span.partial else 200,
            media_type="application/vnd.debian.binary-package",
            headers=_HEADERS | _described(sha256, etag, span, size),
        )


def _described(sha256: str, etag: str, span: Span, size: int) -> dict[str, str]:
    """The digest is of the whole package, whatever part of it is sent (RFC 9530)."""
    digest = base64.b64encode(bytes.fromhex(sha256)).decode()
    said = {
        "etag": etag,
        "accept-ranges": "bytes",
        "content-length": str(span.length),
        "repr-digest": f"sha-256=:{digest}:",
        "digest": f"sha-256={digest}",
    }
    if span.partial:
        said["content-range"] = f"bytes {span.first}-{span.first + span.length - 1}/{size}"
    return said


class _Sent(StreamingResponse):
    """Has its place among those that are sent from its first byte to its end, however that comes, and not for ever:
    a few that read nothing would keep every node from its version."""

    def __init__(self, packages: Packages, most_s: float, chunks: AsyncIterator[bytes], **more: Any) -> None:
        super().__init__(chunks, **more)
        self._packages, self._most_s = packages, most_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._packages.sending():
                async with asyncio.timeout(self._most_s):
                    await super().__call__(scope, receive, send)
        except TimeoutError:
            _log.info("package.too_slow", seconds=self._most_s)  # the server closes what was not sent to its end
        except HostlerError as err:
            await problem(err, "")(scope, receive, send)


async def _chunks(packages: Packages, sha256: str, span: Span) -> AsyncIterator[bytes]:
    descriptor = packages.open(sha256)
    try:
        at, left = span.first, span.length
        while left:
            chunk = await asyncio.to_thread(os.pread, descriptor, min(_CHUNK, left), at)
            if not chunk:
                return  # it was cut on disk; whoever reads it sees that by its length
            at, left = at + len(chunk), left - len(chunk)
            yield chunk
    finally:
        os.close(descriptor)
