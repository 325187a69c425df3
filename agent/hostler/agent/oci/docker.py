"""The Docker Engine's store, by its API over the local socket.

The engine names images by the digest of their configuration, or, where it keeps them in containerd's store as Docker 29
does by itself, of their manifest; a digest of a registry it keeps only for what it has pulled itself. So the image is
found, and has to be run, by that id.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec

from hostler.agent.host import docker_version
from hostler.agent.oci.collect import Found
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError, error

PIECE = 1 << 20


class _Image(msgspec.Struct, frozen=True):
    Id: str = ""


class _Line(msgspec.Struct, frozen=True):
    error: str = ""


class Docker:
    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._version = docker_version.OLDEST

    def _client(self, deadline: Deadline) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(uds=self._socket)
        timeout = max(1.0, deadline.remaining())
        return httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=timeout, trust_env=False)

    async def present(self, name: str, found: Found, deadline: Deadline, cancelled: asyncio.Event) -> str:
        for wanted in (found.manifest.config.digest, found.descriptor.digest):
            if await self._holds(wanted, deadline):
                return wanted
        return ""

    async def _holds(self, wanted: str, deadline: Deadline) -> bool:
        """Raises `image_store`."""
        try:
            async with self._client(deadline) as client:
                answer = await client.get(f"/v{self._version}/images/{wanted}/json")
                if later := docker_version.wanted(answer.status_code, answer.content):
                    self._version = later
                    answer = await client.get(f"/v{later}/images/{wanted}/json")
            if answer.status_code == 404:
                return False
            answer.raise_for_status()
            image = msgspec.json.decode(answer.content, type=_Image)
        except (httpx.HTTPError, msgspec.MsgspecError) as err:
            raise _failed("does not say which images it has", err) from err
        return image.Id == wanted

    async def load(self, archive: str, name: str, found: Found, deadline: Deadline, cancelled: asyncio.Event) -> str:
        async def body() -> AsyncIterator[bytes]:
            with Path(archive).open("rb") as file:  # noqa: ASYNC230 - a local file; its reads are in a thread
                while data := await asyncio.to_thread(file.read, PIECE):
                    if cancelled.is_set():
                        raise error("canceled", "loading the image was cancelled")
                    yield data

        try:
            async with self._client(deadline) as client:
                path, headers = f"/v{self._version}/images/load", {"Content-Type": "application/x-tar"}
                answer = await client.post(path, params={"quiet": "1"}, content=body(), headers=headers)
            answer.raise_for_status()
            lines = msgspec.json.Decoder(_Line).decode_lines(answer.content)
        except (httpx.HTTPError, msgspec.MsgspecError) as err:
            raise _failed("did not take the image", err) from err
        said = next((line.error for line in lines if line.error), "")
        if said:
            raise error("image_store", f"the Docker Engine did not take the image: {said[:300]}")
        image = await self.present(name, found, deadline, cancelled)
        if not image:
            raise error("image_store", f"the Docker Engine took the archive and does not hold {name}")
        return image


def _failed(what: str, err: Exception) -> HostlerError:
    return error("image_store", f"the Docker Engine {what}: {type(err).__name__}")
