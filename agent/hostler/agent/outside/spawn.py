"""How the runner comes by its network process: a child of its own, or one that systemd runs and that dials in."""

import asyncio
import os
import pwd
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from hostler.agent.outside.outside import Outside, Streams
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger

T = TypeVar("T")
_log = get_logger("hostler.agent.outside")
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")
DEFAULT_USER = "hostler-session"
# Without that user: an id that is no login's, no package's and not among systemd's dynamic users. Not `nobody`,
# whom commands run as.
NOBODYS_ID = 61_111
_MODULE = "hostler.agent.outside.process"


class Child:
    """A child process on one end of a socket pair, without privileges when we have any."""

    def __init__(self, user: str, log_format: str, log_level: str) -> None:
        self._uid, self._gid = _child_ids(user)
        self._logs = (log_format, log_level)
        self._process: subprocess.Popen[bytes] | None = None

    async def connect(self) -> Streams:
        """A fresh child; the one before it is reaped."""
        self.stop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._start(theirs.fileno())
        return await asyncio.open_unix_connection(sock=ours)

    def _start(self, descriptor: int) -> None:
        words = (str(descriptor), str(self._uid), str(self._gid), *self._logs)
        self._process = subprocess.Popen(
            (sys.executable, "-I", "-X", "utf8", "-m", _MODULE, *words),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(descriptor,), env=_proxies(), cwd="/",
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def stop(self) -> None:
        """Ends it; its calls end with it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


async def with_child(child: Child, work: Callable[[Outside], Awaitable[T]]) -> T:
    """One piece of work with a network process of its own, which ends with it."""
    outside = Outside(child.connect)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(outside.run())
        (outcome,) = await asyncio.gather(work(outside), return_exceptions=True)
        serving.cancel()
    child.stop()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


class Listener:
    """Waits at a socket for the one user that may be the network process."""

    def __init__(self, path: Path, user: str) -> None:
        self._path = path
        self._uid, self._gid = ids_of(user)
        self._server: socket.socket | None = None

    async def connect(self) -> Streams:
        """The next process of that user that dials in; others are turned away."""
        listening = self._listening()
        loop = asyncio.get_running_loop()
        while True:
            link, _ = await loop.sock_accept(listening)
            uid = _peer_uid(link)
            if uid == self._uid:
                return await asyncio.open_unix_connection(sock=link)
            _log.warning("outside.stranger", uid=uid)
            link.close()

    def _listening(self) -> socket.socket:
        if self._server is None:
            self._path.unlink(missing_ok=True)
            self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            before = os.umask(0o177)
            try:
                self._server.bind(str(self._path))
            finally:
                os.umask(before)
            os.chown(self._path, self._uid, self._gid)
            self._server.listen(4)
        return self._server

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
            self._server = None


def _proxies() -> dict[str, str]:
    """The only variables that the network process is given: where gRPC looks for a proxy."""
    return {name: os.environ[name] for name in PROXIES if name in os.environ}


def _child_ids(user: str) -> tuple[int, int]:
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    try:
        return ids_of(user)
    except HostlerError:
        if user != DEFAULT_USER:
            raise
        return NOBODYS_ID, NOBODYS_ID


def ids_of(user: str) -> tuple[int, int]:
    """Raises `invalid_config` for a user there is not, or root."""
    try:
        found = pwd.getpwnam(user)
    except KeyError as err:
        raise error("invalid_config", f"session_user {user!r} does not exist on this machine") from err
    if found.pw_uid == 0:
        raise error("invalid_config", "session_user must not be root: it is the part that faces the network")
    return found.pw_uid, found.pw_gid


def _peer_uid(link: socket.socket) -> int:
    _, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)
