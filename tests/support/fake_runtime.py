"""A container runtime in memory, as faithful as the tests need: it outlives agents, as a daemon does.

What a container does is a program of the test: it says lines and ends. `away` is a daemon that does not answer; the
containers run on meanwhile. Whatever is asked of it is kept in `calls`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from signal import SIGKILL, SIGTERM

from hostler.agent.containers.runtime import (
    Executed,
    Found,
    Line,
    PullAuth,
    Size,
    State,
    Stats,
    Status,
    Terminal,
)
from hostler.agent.containers.spec import ContainerSpec
from hostler.base.errors import error


@dataclass
class FakeContainer:
    """`starts` counts how often it was really started: never above one for one container."""

    id: str
    spec: ContainerSpec
    state: State = State.CREATED
    exit_code: int = 0
    signal: int = 0
    lines: list[tuple[str, str]] = field(default_factory=list)
    starts: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ignores_term: bool = False
    pid: int = 0

    def say(self, text: str, stream: str = "stdout") -> None:
        self.lines.append((stream, text))
        self._tell()

    def end(self, code: int = 0) -> None:
        self._end(State.EXITED, code)

    def kill(self, number: int = SIGKILL) -> None:
        self._end(State.KILLED, 128 + number, number)

    def run_out_of_memory(self) -> None:
        self._end(State.OOM, 137, SIGKILL)

    def never_begin(self) -> None:
        """Its runtime could not start it."""
        self.starts -= 1
        self._end(State.UNSTARTED, 128)

    def _end(self, state: State, code: int, number: int = 0) -> None:
        self.state, self.exit_code, self.signal = state, code, number
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self.state in (State.EXITED, State.KILLED, State.OOM, State.UNSTARTED)


Program = Callable[[FakeContainer], Awaitable[None] | None]


class FakeRuntime:
    """Args:
    program: what a container does once it is started; one that only waits, unless told otherwise.
    """

    def __init__(self, name: str = "docker", program: Program | None = None) -> None:
        self.name = name
        self.program = program
        self.away = False
        self.images: set[str] = set()
        self.containers: dict[str, FakeContainer] = {}
        self.removed: list[FakeContainer] = []
        self.calls: list[tuple[str, str]] = []
        self.auths: list[PullAuth | None] = []
        self._running: set[asyncio.Future[None]] = set()

    # -- for tests ----------------------------------------------------------------------------

    def named(self, name: str) -> FakeContainer:
        return next(one for one in self.containers.values() if one.spec.name == name)

    @property
    def only(self) -> FakeContainer:
        (one,) = self.containers.values()
        return one

    def did(self, call: str) -> list[str]:
        return [what for name, what in self.calls if name == call]

    @property
    def made(self) -> list[FakeContainer]:
        """Every container there ever was."""
        return [*self.removed, *self.containers.values()]

    # -- the protocol -------------------------------------------------------------------------

    async def available(self) -> str:
        self._asked("available", "")
        return "fake 1"

    async def pull(self, reference: str, auth: PullAuth | None = None) -> str:
        self._asked("pull", reference)
        self.auths.append(auth)
        self.images.add(reference)
        return reference

    async def has_image(self, reference: str) -> bool:
        self._asked("has_image", reference)
        return reference in self.images

    async def create(self, spec: ContainerSpec) -> str:
        self._asked("create", spec.name)
        for one in self.containers.values():
            if one.spec.name == spec.name:
                return one.id
        if spec.image and spec.image not in self.images:
            raise error("runtime_unavailable", f"there is no image {spec.image}")
        made = FakeContainer(f"c{len(self.made) + 1}", spec)
        self.containers[made.id] = made
        return made.id

    async def start(self, container: str) -> None:
        one = self._get("start", container)
        if one.state is State.RUNNING:
            return
        one.state, one.starts = State.RUNNING, one.starts + 1
        if self.program is not None:
            doing = self.program(one)
            if doing is not None:
                task = asyncio.ensure_future(doing)
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def status(self, container: str) -> Status:
        one = self._get("status", container)
        return Status(state=one.state, exit_code=one.exit_code, signal=one.signal, started_at_ms=0, pid=one.pid)

    async def wait(self, container: str) -> Status:
        while True:
            one = self._get("wait", container)
            if one.ended:
                return await self.status(container)
            await one.changed.wait()

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        at = int(cursor or 0)
        while True:
            one = self._get("logs", container)
            for stream, text in one.lines[at:]:
                at += 1
                yield Line(stream, text, True, str(at))
            if not follow or (one.ended and at == len(one.lines)):
                return
            if at == len(one.lines):
                await one.changed.wait()

    async def stats(self, container: str) -> Stats:
        self._get("stats", container)
        return Stats(cpu_nanos=0, memory_bytes=0)

    async def exec(self, container: str, command: tuple[str, ...], timeout_s: float) -> Executed:
        self._get("exec", container)
        return Executed(exit_code=0, stdout=b"", stderr=b"")

    async def attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> Terminal:
        raise NotImplementedError

    async def stop(self, container: str, grace_s: float) -> None:
        self._asked("stop", container)
        one = self.containers.get(container)
        if one is None or one.ended or one.state is State.CREATED:
            return
        if one.ignores_term:
            await asyncio.sleep(grace_s)
        one.kill(SIGKILL if one.ignores_term else SIGTERM)

    async def remove(self, container: str) -> None:
        self._asked("remove", container)
        gone = self.containers.pop(container, None)
        if gone is not None:
            self.removed.append(gone)
            gone.kill()

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        self._asked("list", "")
        wanted = labels.items()
        return tuple(
            Found(id=one.id, name=one.spec.name, labels=dict(one.spec.labels), state=one.state)
            for one in self.containers.values()
            if wanted <= one.spec.labels.items()
        )

    def _asked(self, call: str, what: str) -> None:
        self.calls.append((call, what))
        if self.away:
            raise error("runtime_unavailable", f"{self.name} does not answer")

    def _get(self, call: str, container: str) -> FakeContainer:
        self._asked(call, container)
        return self.containers[container]
