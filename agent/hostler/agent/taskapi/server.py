"""A unix socket for each running attempt, in a directory that only its container is shown.

    <base> 0700, root's ─▶ <attempt> 0755, mounted read-only at /run/hostler ─▶ task.sock 0666

Whatever user a container runs as may connect; nobody outside gets through the base directory. A directory outlives
the agent, because a running container holds it as a mount: only the socket in it is made anew (TE-20).
"""

import asyncio
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.taskapi.calls import Calls
from hostler.agent.taskapi.messages import MAX_HEAD, Answer, encoded, read_request
from hostler.agent.taskapi.routes import answer, refused
from hostler.agent.taskapi.session import Session
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.taskapi")
SOCKET = "task.sock"
READ_S, WRITE_S = 15.0, 15.0  # for a whole request, however slowly it comes
MOST_OF_TASK, MOST_OF_NODE = 32, 512  # open connections
OWN = 4  # that a task may have however many the others hold
_ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


class TaskApi:
    """Implements `containers.workload.TaskServer`."""

    def __init__(self, base: Path, calls: Calls, clock: Clock) -> None:
        self._base = base
        self._calls = calls
        self._clock = clock
        self._open = 0

    @asynccontextmanager
    async def serve(self, facts: TaskFacts) -> AsyncIterator[Path]:
        """→ the directory with `task.sock`. Gone at the end, unless we are: a cancelled block leaves it (TE-20).

        Raises:
            HostlerError: `file_error` when the socket cannot be made.
        """
        directory = self._directory(facts.attempt_uid)
        serving = _Serving(Session(facts, self._calls, self._clock), self)
        sock = _listen(directory)
        server = await asyncio.start_unix_server(serving.connected, sock=sock, limit=MAX_HEAD)
        try:
            yield directory
        except asyncio.CancelledError:
            await serving.end(server)
            (directory / SOCKET).unlink(missing_ok=True)
            raise
        except BaseException:
            await serving.end(server)
            self.discard(facts.attempt_uid)
            raise
        await serving.end(server)
        self.discard(facts.attempt_uid)

    def discard(self, attempt_uid: str) -> None:
        """Removes what is left of an attempt that has ended; nothing there is success."""
        if _ATTEMPT.fullmatch(attempt_uid):
            shutil.rmtree(self._base / attempt_uid, ignore_errors=True)

    def enter(self, held: int) -> bool:
        """Whether a task that holds so many connections may have one more on this node."""
        if self._open >= MOST_OF_NODE and held >= OWN:
            return False
        self._open += 1
        return True

    def leave(self) -> None:
        self._open -= 1

    def _directory(self, attempt_uid: str) -> Path:
        if not _ATTEMPT.fullmatch(attempt_uid):
            raise error("file_error", "an attempt's id is no name of a directory")
        try:
            self._base.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._base.chmod(0o700)
            directory = self._base / attempt_uid
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        except OSError as err:
            raise error("file_error", f"{self._base} cannot take the sockets of tasks: {err.strerror}") from err
        return directory


class _Serving:
    """The connections of one attempt."""

    def __init__(self, session: Session, api: TaskApi) -> None:
        self._session = session
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._tasks) >= MOST_OF_TASK or not self._api.enter(len(self._tasks)):
                await _say(writer, refused(error("rate_limited", "too many connections to the task API at once")))
                return
            self._tasks.add(task)
            try:
                await self._serve(reader, writer)
            finally:
                self._tasks.discard(task)
                self._api.leave()
        except (OSError, TimeoutError):
            pass  # a task that says too little too slowly, or hangs up, gets no answer
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                request = await read_request(reader, writer)
            if request is None:
                return
            said = await answer(self._session, request)
        except HostlerError as err:
            said = refused(err)
        except (OSError, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 - the edge of a request: this one fails, the agent goes on
            _log.exception("taskapi.failed", task_id=self._session.facts.task_id)
            said = refused(error("internal_error", "the task API failed inside"))
        await _say(writer, said)

    async def end(self, server: asyncio.Server) -> None:
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=1)


async def _say(writer: asyncio.StreamWriter, said: Answer) -> None:
    async with asyncio.timeout(WRITE_S):
        writer.write(encoded(said))
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _listen(directory: Path) -> socket.socket:
    """Bound through a descriptor: a socket's own path may be 107 bytes at most, and a directory is not followed."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=opened)
            sock.bind(f"/proc/self/fd/{opened}/{SOCKET}")
            os.chmod(SOCKET, 0o666, dir_fd=opened)  # noqa: S103 - any user of that one container
        finally:
            os.close(opened)
    except OSError as err:
        sock.close()
        raise error("file_error", f"{directory}/{SOCKET} cannot be made: {err.strerror}") from err
    return sock
