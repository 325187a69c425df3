"""Calls to the Docker Engine over its socket, and what its refusals mean. Imports httpx: load it where it is used."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hostler.agent.containers.pulls import refused, short
from hostler.agent.containers.runtime import PullAuth
from hostler.base.errors import HostlerError, error

API = "/v1.41"  # of Docker 20.10, the oldest that is still kept up
CALL_S = 120.0
_PULL_S = 6 * 3600.0


class _Message(msgspec.Struct, frozen=True):
    message: str = ""


class _Progress(msgspec.Struct, frozen=True):
    error: str = ""


class Client:
    """Connections to one socket. Belongs to the loop that it was made in."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        limits = httpx.Limits(max_connections=None)
        transport = httpx.AsyncHTTPTransport(uds=str(socket), limits=limits)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=CALL_S, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        fine: tuple[int, ...] = (),
        limit_s: float | None = CALL_S,
        **more: Any,
    ) -> bytes:
        """The answer's body; "" for a status in `fine`. Raises what `failure` says."""
        try:
            answer = await self._http.request(method, f"{API}{path}", timeout=limit_s, **more)
        except httpx.HTTPError as err:
            raise _away(what) from err
        if answer.status_code in fine:
            return b""
        if answer.is_error:
            raise failure(what, answer.status_code, answer.content)
        return answer.content

    @asynccontextmanager
    async def stream(self, path: str, what: str, **more: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """For as long as it takes."""
        try:
            async with self._http.stream("GET", f"{API}{path}", timeout=None, **more) as answer:
                if answer.is_error:
                    raise failure(what, answer.status_code, await answer.aread())
                yield answer.aiter_bytes()
        except httpx.HTTPError as err:
            raise _away(what) from err

    async def pull(self, reference: str, auth: PullAuth | None) -> None:
        """Raises `source_denied`, `source_unreachable`, `digest_mismatch`, `image_missing`."""
        name, _, digest = reference.partition("@")
        headers = {}
        if auth is not None:
            login = {"serveraddress": name.split("/")[0]}
            if auth.token is not None:
                login |= {"registrytoken": auth.token().decode()}
            else:
                login |= {"username": auth.username, "password": auth.password().decode()}
            headers["X-Registry-Auth"] = base64.urlsafe_b64encode(msgspec.json.encode(login)).decode()
        parameters = {"fromImage": name, "tag": digest}
        try:
            answer = await self._http.post(f"{API}/images/create", params=parameters, headers=headers, timeout=_PULL_S)
        except httpx.HTTPError as err:
            raise _away(f"pulling {reference}") from err
        finally:
            headers.clear()
        if answer.is_error:
            raise refused(reference, _said(answer.content))
        lines = msgspec.json.Decoder(_Progress).decode_lines(answer.content)
        if said := next((line.error for line in lines if line.error), ""):
            raise refused(reference, said)

    async def upgrade(
        self, path: str, body: dict[str, Any], what: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that is a program's streams from here on."""
        data = msgspec.json.encode(body)
        head = (
            f"POST {API}{path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as err:
            raise _away(what) from err
        try:
            writer.write(head.encode() + data)
            async with asyncio.timeout(CALL_S):
                answer = await reader.readuntil(b"\r\n\r\n")
            status = int(answer.split(b" ", 2)[1])
            if status not in (101, 200):
                raise failure(what, status, await reader.read(4096))
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as err:
            writer.close()
            raise _away(what) from err
        except BaseException:
            writer.close()
            raise
        return reader, writer


def failure(what: str, status: int, body: bytes) -> HostlerError:
    said = _said(body)
    if status == 404:
        if "image" in said.lower() and "container" not in said.lower():
            return error("image_missing", f"{what}: the Docker Engine does not hold the image: {short(said)}")
        return error("container_missing", f"{what}: {short(said)}")
    if status == 503:
        return _away(what)
    return error("container_failed", f"{what}: {short(said)}")


def _away(what: str) -> HostlerError:
    return error("runtime_unavailable", f"the Docker Engine does not answer, so {what} was not done")


def _said(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Message).message
    except msgspec.MsgspecError:
        return body[:500].decode(errors="replace")
