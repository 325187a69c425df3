"""A program in a running container with its streams in hand, by containerd's own calls and named pipes.

CRI's way leads through an HTTP server of containerd's and cannot end what it has started.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from pathlib import Path
from typing import Any

import msgspec
from google.protobuf import any_pb2

from hostler.agent.containers import strays
from hostler.agent.containers.cri_client import CRI_METADATA, Client
from hostler.agent.containers.ends import Pipe
from hostler.agent.containers.runtime import END_OF_TRANSMISSION, Size
from hostler.base.errors import HostlerError
from hostler.cri.v1 import tasks_pb2 as tasks

_PROCESS = "types.containerd.io/opencontainers/runtime-spec/1/Process"
_NO_LIMIT = None


class ContainerdTerminal:
    def __init__(self, client: Client, container: str, name: str, place: Path) -> None:
        self._client = client
        self._ids: dict[str, Any] = {"container_id": container, "exec_id": name}
        self._name = name
        self._place = place
        self._input = Pipe(place / "in")
        self._output, self._errors = Pipe(place / "out"), Pipe(place / "err")
        self._tty = False
        self._code: int | None = None
        self._collecting = asyncio.Lock()

    async def start(self, process: dict[str, object], command: tuple[str, ...], *, tty: Size | None) -> None:
        """Raises `container_failed`, `container_missing`, `runtime_unavailable`."""
        self._tty = tty is not None
        request = tasks.ExecProcessRequest(
            **self._ids,
            stdin=str(self._place / "in"),
            stdout=str(self._place / "out"),
            stderr="" if self._tty else str(self._place / "err"),
            terminal=self._tty,
            spec=any_pb2.Any(
                type_url=_PROCESS, value=msgspec.json.encode(spec_of(process, command, self._name, tty=tty))
            ),
        )
        what = f"starting {command[0]} in {self._ids['container_id']}"
        await self._client.native(self._client.tasks.Exec, request, what)
        try:
            await self._client.native(self._client.tasks.Start, tasks.StartRequest(**self._ids), what)
        except HostlerError:
            await self._collect()
            raise

    async def read(self) -> bytes:
        return await self._output.read(self.wait)

    async def read_error(self) -> bytes:
        return b"" if self._tty else await self._errors.read(self.wait)

    async def write(self, data: bytes) -> None:
        await self._input.write(data)

    async def end_input(self) -> None:
        """The shim holds the pipe open as well, for clients that come back."""
        if self._tty:
            await self._input.write(END_OF_TRANSMISSION)
            return
        request = tasks.CloseIORequest(**self._ids, stdin=True)
        with contextlib.suppress(HostlerError):  # it may have ended
            await self._client.native(self._client.tasks.CloseIO, request, "ending a program's input")
        self._input.close()

    async def resize(self, rows: int, columns: int) -> None:
        request = tasks.ResizePtyRequest(**self._ids, width=columns, height=rows)
        with contextlib.suppress(HostlerError):  # it may have ended; a size is not worth the session
            await self._client.native(self._client.tasks.ResizePty, request, "resizing a terminal")

    async def wait(self) -> int:
        if self._code is None:
            waited = self._client.tasks.Wait(tasks.WaitRequest(**self._ids), metadata=CRI_METADATA, timeout=_NO_LIMIT)
            with contextlib.suppress(Exception):  # it may have been collected meanwhile: that says the same
                self._code = (await waited).exit_status
            await self._collect()
        return -1 if self._code is None else self._code

    async def close(self) -> None:
        """Ends it with all below it, whatever became of the container meanwhile."""
        try:
            if self._code is None:
                kill = tasks.KillRequest(**self._ids, signal=signal.SIGKILL)
                with contextlib.suppress(HostlerError):
                    await self._client.native(self._client.tasks.Kill, kill, "ending a terminal")
            await strays.end(self._name)
            with contextlib.suppress(HostlerError):
                await self._collect()
        finally:
            self._input.close()
            self._output.close()
            self._errors.close()
            shutil.rmtree(self._place, ignore_errors=True)

    async def _collect(self) -> None:
        """What is left of it in containerd; answers once its last output is in the pipe."""
        async with self._collecting:
            request = tasks.DeleteProcessRequest(**self._ids)
            with contextlib.suppress(HostlerError):
                done = await self._client.native(self._client.tasks.DeleteProcess, request, "collecting a terminal")
                self._code = done.exit_status


async def attach(
    client: Client,
    run_dir: Path,
    container: str,
    process: dict[str, object],
    command: tuple[str, ...],
    *,
    tty: Size | None,
) -> ContainerdTerminal:
    name = secrets.token_hex(8)
    place = run_dir / name
    place.mkdir(mode=0o700, parents=True)
    for end in ("in", "out", "err"):
        os.mkfifo(place / end, 0o600)
    terminal = ContainerdTerminal(client, container, name, place)
    try:
        await terminal.start(process, command, tty=tty)
    except BaseException:
        await terminal.close()
        raise
    return terminal


def spec_of(process: dict[str, object], command: tuple[str, ...], mark: str, *, tty: Size | None) -> dict[str, object]:
    """The container's own process with another command: the same user, the same walls."""
    given = process.get("env") or []
    environment = [*given, f"{strays.VARIABLE}={mark}"] if isinstance(given, list) else []
    made = {**process, "args": list(command), "terminal": tty is not None, "env": environment}
    if tty is not None:
        environment.append("TERM=xterm")
        made["consoleSize"] = {"height": tty.rows, "width": tty.columns}
    return made
