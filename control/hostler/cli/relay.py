"""This terminal on one side, a relay's WebSocket on the other."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.cli.client import problem_of, tls_of
from hostler.cli.settings import Settings, read_token
from hostler.wire.race import first_of

BEAT_S, SILENT_S = 1.0, 5.0
CHUNK = 32_768
STDIN, STDERR = 0, 2


def window_size() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    size = os.get_terminal_size(sys.stdin.fileno())
    return max(1, min(size.lines, 1000)), max(1, min(size.columns, 1000))


class Attached:
    """One session, from the first byte to the program's exit code."""

    def __init__(self, settings: Settings, path: str, *, tty: bool, stdin: bool) -> None:
        self._settings = settings
        self._path = path
        self._tty = tty
        self._stdin = stdin
        self._credit = 0
        self._room = asyncio.Event()
        self._heard_at = 0.0
        self._writing = False
        self._code = 0

    def run(self) -> int:
        """The program's exit code.

        Raises:
            HostlerError: the server's refusal, why the session was cut, `controller_unreachable`.
        """
        with _raw() if self._tty else nullcontext():
            return asyncio.run(self._attach())

    async def _attach(self) -> int:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

        token, server = read_token(self._settings), self._settings.server
        tls = tls_of(self._settings) if self._settings.ca_file and server.startswith("https://") else None
        try:
            async with connect(
                server.replace("http", "ws", 1) + self._path,
                additional_headers={"authorization": f"Bearer {token}"},
                compression=None, proxy=None, ssl=tls, max_size=1 << 20, ping_interval=None, open_timeout=30,
            ) as socket:  # fmt: skip
                return await self._carry(socket)
        except InvalidStatus as err:
            raise problem_of(err.response.status_code, bytes(err.response.body)) from err
        except ConnectionClosed as err:
            raise error("controller_unreachable", "the session broke off") from err
        except (InvalidHandshake, OSError, TimeoutError) as err:
            raise error("controller_unreachable", f"no answer from {server} ({type(err).__name__})") from err

    async def _carry(self, socket: Any) -> int:
        """Standard input may end long before the program does; everything else ends the session."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        doing = [self._output(socket), self._beat(socket)]
        if self._stdin or self._tty:
            doing.append(self._input(socket))
        if self._tty:
            doing.append(self._sizes(socket))
        await first_of(*doing)
        return self._code

    async def _output(self, socket: Any) -> None:
        """Writes what comes; a pipe that is full stops the program at the other end, and not the beats."""
        async for message in socket:
            self._heard_at = asyncio.get_running_loop().time()
            if isinstance(message, bytes):
                self._writing = True
                await asyncio.to_thread(_write, 2 if message[0] == STDERR else 1, message[1:])
                self._writing = False
                continue
            said = msgspec.json.decode(message, type=dict[str, Any])
            if said["type"] == "window":
                self._credit += int(said["bytes"])
                self._room.set()
            elif said["type"] == "exit":
                self._code = int(said["code"]) & 0xFF
                return
            elif said["type"] == "error":
                raise _told(said)
        raise error("relay_closed", "the control plane closed the session")

    async def _input(self, socket: Any) -> None:
        """Reads no more of standard input than the program takes."""
        while True:
            while self._credit <= 0:
                self._room.clear()
                await self._room.wait()
            data = await _read_stdin(min(self._credit, CHUNK))
            if not data:
                await socket.send('{"type":"eof"}')
                await asyncio.Event().wait()
            self._credit -= len(data)
            await socket.send(bytes((STDIN,)) + data)

    async def _sizes(self, socket: Any) -> None:
        changed = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
        while True:
            await changed.wait()
            changed.clear()
            rows, columns = window_size()
            await socket.send(msgspec.json.encode({"type": "resize", "rows": rows, "columns": columns}).decode())

    async def _beat(self, socket: Any) -> None:
        """Says that we are here, and notices when nobody else is."""
        loop = asyncio.get_running_loop()
        while True:
            await socket.send('{"type":"beat"}')
            await asyncio.sleep(BEAT_S)
            if loop.time() - self._heard_at > SILENT_S and not self._writing:
                raise error("controller_unreachable", f"nothing was heard of the control plane for {SILENT_S:.0f} s")


async def _read_stdin(count: int) -> bytes:
    """Without a thread that could not be cancelled; a file, which cannot be waited for, is simply read."""
    loop, ready, number = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.fileno()
    try:
        loop.add_reader(number, ready.set)
    except PermissionError:
        return os.read(number, count)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(number)
    return os.read(number, count)


def _write(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def _told(said: dict[str, Any]) -> HostlerError:
    from hostler.base.codes import CODES

    code = str(said.get("error_code", ""))
    return error(code if code in CODES else "relay_closed", str(said.get("message", ""))[:500])


@contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the program, Ctrl-C too; the terminal is as it was afterwards, whatever happened."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setraw(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
