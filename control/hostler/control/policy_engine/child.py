"""One process of the engine, as whoever started it sees it."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from hostler.control.policy_engine.files import Module
from hostler.control.policy_engine.worker import LENGTH

START_S = 20.0
LOOK_S = 0.02  # how often the memory of a process that thinks is looked at
_PAGE = os.sysconf("SC_PAGE_SIZE")
MAX_ANSWER = 65_536
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class Away(Exception):
    """The process gave no answer that can be read; it is of no use any more."""


class Setup(NamedTuple):
    modules: tuple[Module, ...]
    query: str
    memory_bytes: int


class Child:
    def __init__(self, process: asyncio.subprocess.Process, memory_bytes: int) -> None:
        self._process = process
        self._memory_bytes = memory_bytes
        self._is_too_big = False

    @classmethod
    async def start(cls, setup: Setup) -> "Child | str":
        """A process that has taken up the modules, or what it dislikes about them. Raises `Away`."""
        spawning = asyncio.ensure_future(_spawned())
        try:
            child = cls(await asyncio.shield(spawning), setup.memory_bytes)
        except asyncio.CancelledError:  # half a process is nobody's
            await cls(await spawning, setup.memory_bytes).end()
            raise
        try:
            async with asyncio.timeout(START_S):
                hello = await child._exchange({"modules": setup.modules, "query": setup.query})
        except (Away, TimeoutError) as err:
            await child.end()
            raise Away(f"no process can take up the policies: {str(err) or f'not within {START_S:g} s'}") from err
        except asyncio.CancelledError:
            await child.end()
            raise
        if "error" in hello:
            await child.end()
            return str(hello["error"])
        return child

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, question: Any) -> Sequence[str] | str:
        """Reasons to refuse, or in one text what went wrong in the policy. Raises `Away`."""
        answer = await self._exchange(question)
        reasons = answer.get("reasons")
        if isinstance(reasons, list) and all(isinstance(each, str) for each in reasons):
            return tuple(reasons)
        if isinstance(answer.get("error"), str):
            return str(answer["error"])
        raise Away("its answer cannot be read")

    async def ended(self) -> int:
        return await self._process.wait()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        self.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(OSError):
                await self._process.stdin.wait_closed()

    def _watched(self) -> None:
        """Looks at its memory until `_look` is cancelled, and ends it where it takes too much."""
        if _resident(self._process.pid) > self._memory_bytes:
            self._is_too_big = True
            self.kill()
        self._look = asyncio.get_running_loop().call_later(LOOK_S, self._watched)

    async def _exchange(self, value: Any) -> dict[str, Any]:
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None
        assert reader is not None
        body = json.dumps(value).encode()
        self._watched()
        try:
            writer.write(LENGTH.pack(len(body)) + body)
            await writer.drain()
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > MAX_ANSWER:
                raise Away("it answered too much")
            answer = json.loads(await reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError, ValueError) as err:
            why = "it took too much memory" if self._is_too_big else "its process ended"
            raise Away(why) from err
        finally:
            self._look.cancel()
        if not isinstance(answer, dict):
            raise Away("its answer cannot be read")
        return answer


async def _spawned() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "hostler.control.policy_engine.worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_ENVIRONMENT,
        cwd="/",
    )


def _resident(pid: int) -> int:
    """Bytes; 0 for a process that has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - on the loop, so without detours
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
