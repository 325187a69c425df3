"""Addresses and ports: what answers, and what listens here."""

import asyncio
import contextlib
import http.client
import io
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hostler.agent.host.procfs import own_proc
from hostler.base.errors import error

BODY_BYTES = 262_144
HEAD_BYTES = 65_536
_LISTEN = "0A"


@dataclass(frozen=True)
class HttpAnswer:
    """`body` is cut at `BODY_BYTES`."""

    status: int
    body: bytes


class Net:
    """Waits are the caller's to bound: every coroutine here ends at once when it is cancelled."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def tcp_connect(self, host: str, port: int) -> None:
        """Connects and hangs up. Raises OSError."""
        async with _connected(host, port, None):
            return

    async def http_get(self, url: str, ca_file: str = "") -> HttpAnswer:
        """One GET, no redirects, no proxy; https is always verified. Raises OSError, also for an
        answer that is no HTTP."""
        context = verifying(ca_file) if urlsplit(url).scheme == "https" else None
        return await self.request("GET", url, context)

    async def request(
        self,
        method: str,
        url: str,
        context: ssl.SSLContext | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpAnswer:
        """One request on a connection of its own, no redirects, no proxy. Raises OSError, also for an
        answer that is no HTTP; `ssl.SSLCertVerificationError` is one.

        Args:
            context: for an https URL, and only then.
            headers: further ones; their values are in no error.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        if (parts.scheme == "https") != (context is not None):
            raise OSError("an https URL needs TLS, and no other can use it")
        port = parts.port or (443 if context else 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not host or not (path + host).isascii() or not (path + host).isprintable() or " " in path:
            raise OSError("the URL names no host, or holds characters that have to be encoded")
        where = f"[{host}]" if ":" in host else host
        if not all(
            (name + value).isascii() and (name + value).isprintable() for name, value in (headers or {}).items()
        ):
            raise OSError("a header holds characters that have to be encoded")
        further = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        further += f"Content-Length: {len(body)}\r\n" if body else ""
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: {where}:{port}\r\nUser-Agent: hostler-agent\r\n"
            f"Accept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n{further}\r\n"
        )
        async with _connected(host, port, context) as (reader, writer):
            writer.write(request.encode() + body)
            return await _read_answer(reader)

    def listening_ports(self) -> frozenset[int]:
        """TCP ports with a listener, on whatever address. Raises `file_error`."""
        tables = [own_proc(self._root) / "net" / name for name in ("tcp", "tcp6")]
        ports: set[int] = set()
        if not any(table.exists() for table in tables):
            raise error("file_error", f"there is no socket table at {tables[0]}")
        for table in tables:
            with contextlib.suppress(FileNotFoundError):  # IPv6 may be off
                ports.update(_listeners(table.read_text()))
        return frozenset(ports)


def _listeners(table: str) -> set[int]:
    """Rows of /proc/net/tcp: number, local address:port, remote, state, ..., in hex."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTEN}


def verifying(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context


@asynccontextmanager
async def _connected(
    host: str, port: int, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()  # no farewell: a peer that does not answer it must not hold us


class _Recorded:
    """What has arrived so far, in the shape the standard library's parser reads from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


async def _read_answer(reader: asyncio.StreamReader) -> HttpAnswer:
    """Reads until the answer is whole, the peer is done, or there is enough of it."""
    data = b""
    while True:
        more = await reader.read(65_536)
        data += more
        enough = len(data) >= HEAD_BYTES + BODY_BYTES
        answer, whole = _parse(data)
        if answer is not None and (whole or enough or not more):
            return answer
        if enough or not more:
            raise OSError("what answers there does not speak HTTP")


def _parse(data: bytes) -> tuple[HttpAnswer | None, bool]:
    """The answer as far as it is there, and whether that is all of it."""
    response = http.client.HTTPResponse(_Recorded(data), method="GET")  # type: ignore[arg-type]  # makefile is all it uses
    try:
        if b"\r\n\r\n" not in data:
            return None, False
        response.begin()
        bounded = response.length is not None or bool(response.chunked)
        body = response.read()
    except http.client.IncompleteRead as err:
        return HttpAnswer(response.status, err.partial[:BODY_BYTES]), False
    except (http.client.HTTPException, ValueError, OSError):
        return None, False
    return HttpAnswer(response.status, body[:BODY_BYTES]), bounded
