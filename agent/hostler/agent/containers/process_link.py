"""The agent's end of a supervisor's socket: requests, and programs with their streams in hand."""

import asyncio
import contextlib
import os
import socket
import struct
import termios
from pathlib import Path
from typing import Any, Self

import msgspec

from hostler.agent.containers.ends import Pipe, settle
from hostler.agent.containers.runtime import END_OF_TRANSMISSION, Executed, Size
from hostler.base.errors import error

_MESSAGE_BYTES = 128 * 1024
_MOST_OUTPUT = 16 << 20
_ANSWER_S = 30.0
_STREAMS = 3
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class Link:
    """One request. The path may be long, so it goes by a descriptor of the directory."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)

    @staticmethod
    def answers(place: Path) -> bool:
        """Whether a supervisor listens."""
        return Link.listener(place) != 0

    @staticmethod
    def listener(place: Path) -> int:
        """Process id of the supervisor that listens; 0 for none, -1 for one that has many requests waiting."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
            try:
                _connect(probe, place)
            except BlockingIOError:
                return -1
            except OSError:
                return 0
            return int(_CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])

    async def __aenter__(self) -> Self:
        try:
            _connect(self._socket, self._place)
        except BaseException:
            self._socket.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    async def order(self, words: dict[str, Any]) -> None:
        data = msgspec.json.encode(words)
        if len(data) > _MESSAGE_BYTES:
            raise error("too_large", "a command for a process has too many arguments")
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def closed(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await asyncio.get_running_loop().sock_recv(self._socket, _MESSAGE_BYTES):
                pass

    async def answer(self) -> tuple[dict[str, Any], list[int]]:
        """A message and its descriptors; empty once it is closed."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, _STREAMS)
            except BlockingIOError:
                ready: asyncio.Future[None] = loop.create_future()
                loop.add_reader(self._socket, settle, ready)
                try:
                    await ready
                finally:
                    loop.remove_reader(self._socket)
                continue
            except ConnectionError:
                return {}, []
            for fd in fds:
                os.set_inheritable(fd, False)
            return msgspec.json.decode(data) if data else {}, fds


class ProcessTerminal:
    """Closing it ends the program with all below it: its keeper sees the connection go."""

    def __init__(self, link: Link, fds: list[int], *, tty: bool) -> None:
        self._link = link
        self._tty = tty
        self._input = Pipe(fds[0])
        self._outputs = [self._input] if tty else [Pipe(fd) for fd in fds[1:]]
        self._code: int | None = None
        self._waiting = asyncio.Lock()

    async def read(self) -> bytes:
        return await self.read_each(0)

    async def read_error(self) -> bytes:
        return b"" if self._tty else await self.read_each(1)

    async def read_each(self, index: int) -> bytes:
        return await self._outputs[index].read(self.wait)

    async def write(self, data: bytes) -> None:
        await self._input.write(data)

    async def end_input(self) -> None:
        if self._tty:
            await self._input.write(END_OF_TRANSMISSION)
        else:
            self._input.close()

    async def resize(self, rows: int, columns: int) -> None:
        self._input.control(termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        async with self._waiting:
            if self._code is None:
                said, _ = await self._link.answer()
                self._code = said.get("code", 128 + 9)
        return self._code

    async def close(self) -> None:
        self._link.close()
        for pipe in {self._input, *self._outputs}:
            pipe.close()


async def program(link: Link, command: tuple[str, ...], *, tty: Size | None) -> ProcessTerminal:
    """Raises `container_failed`."""
    try:
        await link.__aenter__()
        await link.order({"do": "run", "argv": command, "tty": tty is not None, "size": tty})
        async with asyncio.timeout(_ANSWER_S):
            said, fds = await link.answer()
    except (OSError, TimeoutError) as err:
        link.close()
        raise error("container_failed", f"{command[0]} was not started: its container has just ended") from err
    if not fds:
        link.close()
        raise error("container_failed", f"{command[0]} was not started: {said.get('error', 'its container has ended')}")
    terminal = ProcessTerminal(link, fds, tty=tty is not None)
    if tty is not None:
        await terminal.resize(*tty)  # a supervisor of an older version knows no size; for others this changes nothing
    return terminal


async def collect(link: Link, command: tuple[str, ...], timeout_s: float) -> Executed:
    """Raises `timeout`, `container_failed`."""
    running = await program(link, command, tty=None)
    try:
        async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
            streams = [group.create_task(_all_of(running, index)) for index in (0, 1)]
            code = group.create_task(running.wait())
        return Executed(exit_code=code.result(), stdout=streams[0].result(), stderr=streams[1].result())
    except TimeoutError as err:
        raise error("timeout", f"{command[0]} did not end in time") from err
    finally:
        await running.close()


async def _all_of(running: ProcessTerminal, index: int) -> bytes:
    said = bytearray()
    while data := await running.read_each(index):
        said += data[: max(0, _MOST_OUTPUT - len(said))]
    return bytes(said)


def _connect(link: socket.socket, place: Path) -> None:
    directory = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        link.connect(f"/proc/self/fd/{directory}/s")
    finally:
        os.close(directory)
