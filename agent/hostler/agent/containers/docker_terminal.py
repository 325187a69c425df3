"""A program in a container of the Docker Engine with its streams in hand."""

import asyncio
import contextlib

import msgspec

from hostler.agent.containers import strays
from hostler.agent.containers.docker_client import Client
from hostler.agent.containers.docker_logs import Frames
from hostler.agent.containers.runtime import END_OF_TRANSMISSION
from hostler.base.errors import HostlerError

_PIECE = 64 * 1024
_MOST_OUTPUT, _MOST_HELD = 16 << 20, 1 << 20
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
        # Both streams come down one connection: whoever reads keeps what is the other's.
        self._held = {"stdout": bytearray(), "stderr": bytearray()}
        self._turn = asyncio.Lock()
        self._taken = asyncio.Event()

    async def read(self) -> bytes:
        return await self._piece() if self._frames is None else await self._of("stdout", self._frames)

    async def read_error(self) -> bytes:
        return b"" if self._frames is None else await self._of("stderr", self._frames)

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

    async def end_input(self) -> None:
        if self._frames is None:
            await self.write(END_OF_TRANSMISSION)
        elif self._writer.can_write_eof():
            self._writer.write_eof()

    async def resize(self, rows: int, columns: int) -> None:
        parameters = {"h": str(rows), "w": str(columns)}
        with contextlib.suppress(HostlerError):  # it may have ended; a size is not worth the session
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

    async def _of(self, stream: str, frames: Frames) -> bytes:
        """The next of one stream; waits for the other's reader where too much of that is held."""
        while not self._held[stream]:
            async with self._turn:
                if self._held[stream]:
                    break
                while any(len(held) > _MOST_HELD for held in self._held.values()):
                    self._taken.clear()
                    await self._taken.wait()
                if not (data := await self._piece()):
                    return b""
                for name, part in frames.feed(data):
                    self._held[name] += part
        data, self._held[stream] = bytes(self._held[stream]), bytearray()
        self._taken.set()
        return data

    async def _piece(self) -> bytes:
        try:
            return await self._reader.read(_PIECE)
        except ConnectionError:
            return b""
