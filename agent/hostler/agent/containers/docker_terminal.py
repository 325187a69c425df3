"""A program in a container of the Docker Engine with its streams in hand."""

import asyncio
from typing import Any

import msgspec

from hostler.agent.containers import strays
from hostler.agent.containers.docker_client import Client
from hostler.agent.containers.docker_logs import Frames
from hostler.base.errors import HostlerError

_PIECE = 64 * 1024
_MOST_OUTPUT = 16 << 20
_LOOK_S, _FIRST_LOOK_S = 0.2, 0.005


class _Exec(msgspec.Struct, frozen=True, rename="pascal"):
    running: bool = False
    exit_code: int | None = None


class DockerTerminal:
    """
    Args:
        mark: in the environment of the program and all below it; the engine cannot end what it has started.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        mark: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        tty: bool,
    ) -> None:
        self._client = client
        self._name = name
        self._mark = mark
        self._reader = reader
        self._writer = writer
        self._frames = None if tty else Frames()

    async def read(self) -> bytes:
        while data := await self._piece():
            if self._frames is None:
                return data
            if found := b"".join(part for _, part in self._frames.feed(data)):
                return found
        return b""

    async def collect(self) -> dict[str, bytes]:
        """All of both streams, as far as it is bounded."""
        said = {"stdout": bytearray(), "stderr": bytearray()}
        frames = self._frames or Frames()
        while data := await self._piece():
            for stream, part in frames.feed(data):
                said[stream] += part[: max(0, _MOST_OUTPUT - len(said[stream]))]
        return {stream: bytes(part) for stream, part in said.items()}

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            return  # it has ended

    async def resize(self, rows: int, columns: int) -> None:
        parameters: dict[str, Any] = {"h": rows, "w": columns}
        await self._client.call("POST", f"/exec/{self._name}/resize", "resizing a terminal", params=parameters)

    async def wait(self) -> int:
        """The engine has no call that waits for it; its streams' end comes first."""
        pause = _FIRST_LOOK_S
        while True:
            try:
                raw = await self._client.call("GET", f"/exec/{self._name}/json", "looking at a terminal")
            except HostlerError as err:
                if err.code == "runtime_unavailable":
                    await asyncio.sleep(_LOOK_S)
                    continue
                return -1  # its container is gone, and the engine has forgotten it
            said = msgspec.json.decode(raw, type=_Exec)
            if not said.running and said.exit_code is not None:
                return said.exit_code
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LOOK_S)

    async def close(self) -> None:
        self._writer.close()
        await strays.end(self._mark)

    async def _piece(self) -> bytes:
        try:
            return await self._reader.read(_PIECE)
        except ConnectionError:
            return b""
