"""Plain processes of the node, for machines without a container engine: tests and local mode (RN-05).

No walls worth the name: the policy allows it to no tenant. A supervisor for each (`shim.py`) outlives the agent; what
is known of a container stands in its directory, and nothing in memory.
"""

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from hostler.agent.containers import cri_logs, process_spec, shim
from hostler.agent.containers.ends import settle
from hostler.agent.containers.following import Following
from hostler.agent.containers.groups import Fenced, leave_service
from hostler.agent.containers.process_link import Link, collect, program
from hostler.agent.containers.process_spec import End, Order, Started
from hostler.agent.containers.process_stats import measure
from hostler.agent.containers.runtime import Executed, Found, Line, PullAuth, Size, State, Stats, Status, Terminal
from hostler.agent.containers.spec import ContainerSpec
from hostler.agent.host import removal
from hostler.agent.host.users import User, Users
from hostler.base.errors import HostlerError, error
from hostler.base.version import __version__

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_START_S = 30.0
_UNSTARTED_S = 0.05
T = TypeVar("T")


class Process:
    """
    Args:
        state_dir: a directory for each container, with its log and its scratch space; root's alone.
    """

    name = "process"

    def __init__(self, state_dir: Path) -> None:
        self._state = state_dir
        self._users = Users()
        self._shims: dict[int, str] = {}
        self._following = Following()

    async def available(self) -> str:
        return str(__version__)

    async def close(self) -> None:
        """What runs goes on."""
        self._following.close()
        self._collect()

    def pids(self) -> frozenset[int]:
        """Supervisors that are children of this process: not to be ended as a helper's leftovers."""
        self._collect()
        return frozenset(self._shims)

    async def pull(self, reference: str, auth: PullAuth | None = None) -> str:
        raise error("container_failed", f"{reference} cannot be pulled: processes of the node run without an image")

    async def has_image(self, reference: str) -> bool:
        return not reference

    async def create(self, spec: ContainerSpec) -> str:
        if not _NAME.fullmatch(spec.name):
            raise error("container_failed", f"{spec.name[:80]!r} cannot be the name of a container")
        if spec.image:
            raise error("image_missing", f"{spec.name} needs the image {spec.image}, and processes run without one")
        if (self._state / spec.name).is_dir():
            return spec.name
        order = process_spec.order(spec, await self._user(spec.user), root=os.geteuid() == 0)
        await asyncio.to_thread(self._write, spec.name, order)
        return spec.name

    async def start(self, container: str) -> None:
        place = self._place(container)
        if self._status(container).state is not State.CREATED:
            return
        order = _read(place / "spec.json", Order)
        assert order is not None
        groups = Fenced(container).make(order.limits) if os.geteuid() == 0 else []
        named = msgspec.structs.replace(order, groups=tuple(map(str, groups)))
        await asyncio.to_thread(_replace, place / "spec.json", msgspec.json.encode(named))
        said = await self._spawn(place)
        if said.error:
            raise error("container_failed", f"{container} was not started: {said.error}")

    async def status(self, container: str) -> Status:
        return self._status(container)

    async def wait(self, container: str) -> Status:
        return await self._following.waited(container, lambda: self._wait(container))

    async def _wait(self, container: str) -> Status:
        while True:
            status = self._status(container)
            if status.ended:
                self._collect()
                return status
            if status.state is State.RUNNING:
                try:
                    async with Link(self._place(container)) as link:
                        await link.order({"do": "wait"})
                        await link.closed()
                        continue
                except OSError:
                    pass  # it has just ended, or has too many requests waiting
            await asyncio.sleep(_UNSTARTED_S)

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        place = self._place(container)

        async def ended() -> bool:
            return not place.exists() or self._status(container).ended

        path = place / "task.log"
        with contextlib.ExitStack() as stack:
            follower = stack.enter_context(self._following.follower(container, path)) if follow else None
            async for line in cri_logs.lines(cri_logs.LogReader(path, cursor), ended, follower):
                yield line

    async def stats(self, container: str) -> Stats:
        status = self._status(container)
        if status.state is not State.RUNNING:
            raise error("container_failed", f"{container} does not run, so there is nothing to measure")
        return await asyncio.to_thread(measure, Fenced(container), status.pid, self._place(container) / "tmp")

    async def exec(self, container: str, command: tuple[str, ...], timeout_s: float) -> Executed:
        return await collect(await self._link(container), command, timeout_s)

    async def attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> Terminal:
        return await program(await self._link(container), command, tty=tty)

    async def stop(self, container: str, grace_s: float) -> None:
        place = self._here(container)
        if place is None or self._status(container).state is not State.RUNNING:
            return
        with contextlib.suppress(OSError):  # it has ended meanwhile
            async with Link(place) as link:
                await link.order({"do": "stop", "grace": grace_s})
                await link.closed()

    async def remove(self, container: str) -> None:
        await self.stop(container, 0)
        place = self._here(container)
        if place is None:
            return
        groups = Fenced(container)
        groups.kill()
        place.rename(self._state / f".gone-{secrets.token_hex(8)}")
        for gone in self._state.glob(".gone-*"):  # also those at which an agent was killed
            with contextlib.suppress(HostlerError):
                await asyncio.to_thread(removal.remove, gone)
        groups.remove()
        self._collect()

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        found = []
        for place in sorted(self._state.glob("[!.]*/spec.json")):
            order, name = _read(place, Order), place.parent.name
            if order is None or not labels.items() <= order.labels.items():
                continue
            status = self._status(name)
            state = State.EXITED if status.ended else status.state
            found.append(Found(id=name, name=name, labels=order.labels, state=state))
        return tuple(found)

    def _status(self, container: str) -> Status:
        """What was written last; one whose supervisor is gone without a word has been killed with it."""
        place = self._place(container)
        started = _read(place / "started.json", Started)
        if (end := _read(place / "end.json", End)) is not None:
            return process_spec.ended(started, end)
        if Link.answers(place):
            return process_spec.running(started)
        if (end := _read(place / "end.json", End)) is not None:  # it ended between the two looks
            return process_spec.ended(started, end)
        if started is None:
            return Status(state=State.CREATED)
        Fenced(container).kill()
        return Status(
            state=State.KILLED,
            exit_code=128 + signal.SIGKILL,
            signal=signal.SIGKILL,
            reason="its supervisor is gone, and took it along",
            started_at_ms=started.at_ms,
            finished_at_ms=int((place / "started.json").stat().st_mtime * 1000),
        )

    def _place(self, container: str) -> Path:
        place = self._here(container)
        if place is None:
            raise error("container_missing", f"there is no process {container[:80]!r}")
        return place

    def _here(self, container: str) -> Path | None:
        """A name is one plain directory, whoever says it."""
        place = self._state / container
        return place if _NAME.fullmatch(container) and place.is_dir() else None

    async def _user(self, named: str) -> User | None:
        """By name or number, as in a container; "" is the agent's unprivileged user."""
        user, _, group = named.partition(":")
        if not user.isdecimal():
            return await self._users.to_run_as(user)
        if int(user) == os.geteuid():
            return None
        return User(user, int(user), int(group) if group.isdecimal() else int(user), ())

    async def _link(self, container: str) -> Link:
        place = self._place(container)
        if self._status(container).state is not State.RUNNING:
            raise error("container_failed", f"{container} does not run, so nothing can run in it")
        return Link(place)

    def _write(self, name: str, order: Order) -> None:
        """Whole or not at all."""
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._state / f".new-{secrets.token_hex(8)}"
        fresh.mkdir(mode=0o700)
        for folder in ("tmp", "root"):
            (fresh / folder).mkdir()
        (fresh / "tmp").chmod(0o1777)
        _replace(fresh / "spec.json", msgspec.json.encode(order))
        try:
            fresh.rename(self._state / name)
        except OSError:  # another create was faster
            shutil.rmtree(fresh)

    async def _spawn(self, place: Path) -> process_spec.Said:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        loop = asyncio.get_running_loop()
        try:
            argv = [sys.executable, "-I", "-S", str(Path(shim.__file__)), str(place)]
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, str(place / "shim.err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, writer, 3),
            ]
            pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)  # noqa: ASYNC221 - vfork
            self._shims[pid] = place.name
            if os.geteuid() == 0:
                leave_service(pid)
        finally:
            os.close(writer)
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(reader, settle, ready)
        try:
            async with asyncio.timeout(_START_S):
                await ready
            return msgspec.json.decode(
                os.read(reader, 65_536) or b'{"error":"its supervisor died"}', type=process_spec.Said
            )
        except TimeoutError as err:
            raise error("runtime_unavailable", f"the supervisor of {place.name} does not answer") from err
        finally:
            loop.remove_reader(reader)
            os.close(reader)

    def _collect(self) -> None:
        """Supervisors that have ended."""
        for pid in list(self._shims):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0]
            except ChildProcessError:
                ended = pid
            if ended:
                self._shims.pop(pid, None)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None


def _replace(path: Path, data: bytes) -> None:
    fresh = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
