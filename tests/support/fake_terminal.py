"""A container runtime whose containers are this machine: enough of it for sessions in running tasks.

Programs are real processes in a session of their own, with a real terminal where they want one. Labels decide what is
found, as everywhere; whatever task is asked for runs here, for one tenant.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.agent.containers import spec
from hostler.agent.containers.runtime import Found, Size, State, Stats, Status
from hostler.base.errors import error

TENANT = ("test-org", "test")


class FakeTerminal:
    """Implements `Terminal`, `EndsInput`, and `SplitTerminal` where there is no tty."""

    def __init__(self, command: tuple[str, ...], *, tty: Size | None, pids: Path | None = None) -> None:
        self._tty = tty is not None
        if tty is not None:
            self._out, inner = pty.openpty()
            _draw(inner, tty)
            self._in, self._err = self._out, -1
            streams: dict[str, Any] = {"stdin": inner, "stdout": inner, "stderr": inner}
        else:
            theirs_in, self._in = os.pipe()
            self._out, theirs_out = os.pipe()
            self._err, theirs_err = os.pipe()
            streams = {"stdin": theirs_in, "stdout": theirs_out, "stderr": theirs_err}
        environment = {"TERM": "xterm", "PATH": os.environ["PATH"]}
        take = _take_terminal if self._tty else None
        self.process = subprocess.Popen(command, start_new_session=True, env=environment, preexec_fn=take, **streams)
        for number in set(streams.values()):
            os.close(number)
        for number in {self._in, self._out, self._err} - {-1}:
            os.set_blocking(number, False)
        if pids is not None:
            with pids.open("a") as kept:
                kept.write(f"{self.process.pid}\n")

    async def read(self) -> bytes:
        return await self._read(self._out)

    async def read_error(self) -> bytes:
        return b"" if self._tty else await self._read(self._err)

    async def _read(self, number: int) -> bytes:
        while True:
            try:
                return os.read(number, 65_536)
            except BlockingIOError:
                await _ready(number, writing=False)
            except OSError:  # the last process with the terminal has gone
                return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                await _ready(self._in, writing=True)
            except BrokenPipeError:
                return

    async def end_input(self) -> None:
        if self._tty:
            await self.write(b"\x04")
        else:
            os.close(self._in)
            self._in = -1

    async def resize(self, rows: int, columns: int) -> None:
        _draw(self._out, Size(rows, columns))

    async def wait(self) -> int:
        code = await asyncio.to_thread(self.process.wait)
        return 128 - code if code < 0 else code

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)
        for number in {self._in, self._out, self._err} - {-1}:
            with contextlib.suppress(OSError):
                os.close(number)


def _draw(terminal: int, size: Size) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def _ready(number: int, *, writing: bool) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    (loop.add_writer if writing else loop.add_reader)(number, ready.set)
    try:
        await ready.wait()
    finally:
        (loop.remove_writer if writing else loop.remove_reader)(number)


class FakeRuntime:
    """One container, in which everything runs. `pids` gets a line for each program that was started."""

    name = "process"

    def __init__(self, pids: Path | None = None, tenant: tuple[str, str] = TENANT) -> None:
        self._pids = pids
        self._tenant = tenant
        self.terminals: list[FakeTerminal] = []

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        if (labels.get(spec.ORG), labels.get(spec.PROJECT)) != self._tenant:
            return ()
        return (Found(id="c1", name="c1", labels=dict(labels), state=State.RUNNING),)

    async def attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> FakeTerminal:
        assert container == "c1"
        try:
            terminal = FakeTerminal(command, tty=tty, pids=self._pids)
        except OSError as err:
            raise error("command_not_found", f"{command[0]} is not in the container") from err
        self.terminals.append(terminal)
        return terminal

    async def status(self, container: str) -> Status:
        return Status(state=State.RUNNING, pid=os.getpid())

    async def stats(self, container: str) -> Stats:
        return Stats(cpu_nanos=int(sum(os.times()[:2]) * 1e9), memory_bytes=1 << 20, pids=1)


class FakeWorkloads:
    """Only the process runtime is there."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    def runtime(self, name: str = "") -> Any:
        return self._runtime

    def runtimes(self) -> tuple[Any, ...]:
        return (self._runtime,)
