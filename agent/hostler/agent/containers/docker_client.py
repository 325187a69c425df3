"""Calls to the Docker Engine over its socket, and what its refusals mean."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hostler.agent.containers.docker_http import NOTHING, Broken, Connections
from hostler.agent.containers.pulls import refused, short
from hostler.agent.containers.runtime import PullAuth
from hostler.agent.host import docker_version
from hostler.base.errors import HostlerError, error

CALL_S = 120.0
_PULL_S = 6 * 3600.0
JSON = {"Content-Type": "application/json"}


class _Message(msgspec.Struct, frozen=True):
    message: str = ""


class _Progress(msgspec.Struct, frozen=True):
    error: str = ""


class Client:
    """Connections to one socket. Belongs to the loop that it was made in."""

    def __init__(self, socket: Path) -> None:
        self._connections = Connections(socket)
        self._version = docker_version.OLDEST

    async def close(self) -> None:
        self._connections.close()

    async def call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        fine: tuple[int, ...] = (),
        limit_s: float | None = CALL_S,
        params: Mapping[str, str] | None = None,
        body: object = None,
    ) -> bytes:
        """The answer's body; "" for a status in `fine`. Raises what `failure` says."""
        content, headers = (msgspec.json.encode(body), JSON) if body is not None else (b"", NOTHING)
        try:
            async with asyncio.timeout(limit_s):
                status, said = await self._answer(method, path, params, content, headers)
        except (Broken, TimeoutError) as err:
            raise _away(what) from err
        if status in fine:
            return b""
        if status >= 400:
            raise failure(what, status, said)
        return said

    @asynccontextmanager
    async def stream(
        self, path: str, what: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """For as long as it takes."""
        try:
            async with self._connections.asked("GET", self._target(path, params)) as (status, pieces):
                if status >= 400:
                    raise self._failure(what, status, b"".join([piece async for piece in pieces]))
                yield pieces
        except Broken as err:
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
        asked = {"fromImage": name, "tag": digest}
        try:
            async with asyncio.timeout(_PULL_S):
                status, said = await self._answer("POST", "/images/create", asked, b"", headers)
        except (Broken, TimeoutError) as err:
            raise _away(f"pulling {reference}") from err
        finally:
            headers.clear()
        if status >= 400:
            raise refused(reference, _said(said))
        lines = msgspec.json.Decoder(_Progress).decode_lines(said)
        if why := next((line.error for line in lines if line.error), ""):
            raise refused(reference, why)

    async def upgrade(
        self, path: str, body: dict[str, Any], what: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that is a program's streams from here on."""
        headers = {**JSON, "Connection": "Upgrade", "Upgrade": "tcp"}
        try:
            connection = await self._connections.fresh()
        except Broken as err:
            raise _away(what) from err
        try:
            async with asyncio.timeout(CALL_S):
                status = await connection.ask("POST", self._target(path), msgspec.json.encode(body), headers)
            if status not in (101, 200):
                raise self._failure(what, status, await connection.reader.read(4096))
        except (Broken, OSError) as err:
            connection.writer.close()
            raise _away(what) from err
        except BaseException:
            connection.writer.close()
            raise
        return connection.reader, connection.writer

    async def _answer(
        self, method: str, path: str, params: Mapping[str, str] | None, content: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Asked again where the engine wants a later version of its API."""
        answer = await self._connections.answer(method, self._target(path, params), content, headers)
        if self._learns(*answer):
            answer = await self._connections.answer(method, self._target(path, params), content, headers)
        return answer

    def _learns(self, status: int, said: bytes) -> bool:
        """Whether the engine wants a later version; it may have made way for a new one under us."""
        version = docker_version.wanted(status, said)
        self._version = version or self._version
        return bool(version)

    def _failure(self, what: str, status: int, said: bytes) -> HostlerError:
        """Of what is not asked again here: its caller does that."""
        return _away(what) if self._learns(status, said) else failure(what, status, said)

    def _target(self, path: str, params: Mapping[str, str] | None = None) -> str:
        query = f"?{urlencode(params)}" if params else ""
        return f"/v{self._version}{quote(path, safe='/:@')}{query}"


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
