"""The one protocol of all runtimes (RN-01): create, start, status, logs, stats, exec, stop, remove, list by label."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from hostler.agent.containers.spec import ContainerSpec


class State(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"  # by itself, with `exit_code`
    KILLED = "killed"  # by a signal, `signal`
    OOM = "oom"  # by the kernel, for memory
    UNSTARTED = "unstarted"  # the runtime could not start it, and nothing of it has run: it may be made anew
    LOST = "lost"  # it does not run any more, and how far it came nobody knows
    UNKNOWN = "unknown"  # the runtime cannot tell; never taken for an end


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a container is now (RN-08). Times are Unix milliseconds, 0 while they have not come.

    Attributes:
        exit_code: of one that ended; 128 + n for signal n.
        pid: of its first process on the host; 0 where it has none.
    """

    state: State
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    pid: int = 0
    address: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0

    @property
    def ended(self) -> bool:
        return self.state not in (State.CREATED, State.RUNNING, State.UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A container in a listing."""

    id: str
    name: str
    labels: Mapping[str, str]
    state: State


class Line(NamedTuple):
    """`whole` is False for a last line without newline. `cursor` resumes after this line.

    `lost` says how many bytes before this line the runtime has dropped unread, because its log was full; `at_ms` is
    when it was written, 0 where the runtime does not know.
    """

    stream: str  # stdout, stderr
    text: str  # what is no UTF-8 is replaced
    whole: bool
    cursor: str
    lost: int = 0
    at_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Since the start: nanoseconds of CPU; now: bytes of working set and of the writable layer, processes."""

    cpu_nanos: int
    memory_bytes: int
    disk_bytes: int = 0
    pids: int = 0


@dataclass(frozen=True, kw_only=True)
class Executed:
    exit_code: int
    stdout: bytes
    stderr: bytes


class Size(NamedTuple):
    """Of a terminal, in characters."""

    rows: int
    columns: int


END_OF_TRANSMISSION = b"\x04"  # what a person types to end the input of a terminal


class Terminal(Protocol):
    """A program inside a container with its streams in hand; `close` ends it with all below it."""

    async def read(self) -> bytes: ...  # b"" at the end

    async def write(self, data: bytes) -> None: ...

    async def resize(self, rows: int, columns: int) -> None: ...

    async def wait(self) -> int: ...  # exit code

    async def close(self) -> None: ...


@runtime_checkable
class EndsInput(Protocol):
    """A terminal whose program can be told that no more input comes, and runs on."""

    async def end_input(self) -> None: ...


@runtime_checkable
class SplitTerminal(Protocol):
    """A terminal that keeps the program's standard error apart; `read` is its standard output then."""

    async def read_error(self) -> bytes: ...  # b"" at the end


@dataclass(frozen=True, kw_only=True)
class PullAuth:
    """`password` and `token` are called when they are needed, and their answers are not kept.

    A token is the registry's own, and goes instead of name and password.
    """

    username: str
    password: Callable[[], bytes]
    token: Callable[[], bytes] | None = None


class ContainerRuntime(Protocol):
    """One runtime of this node. Every call but `logs` is safe to repeat after a crash.

    Errors are `HostlerError`s: `runtime_unavailable` while the daemon does not answer (try again), `image_missing`,
    `container_failed` for what it refuses, `container_missing` for one that is gone.
    """

    name: str  # containerd, docker, process

    async def available(self) -> str:
        """Its version; raises `runtime_unavailable`."""

    async def pull(self, reference: str, auth: PullAuth | None = None) -> str:
        """By digest. → what `ContainerSpec.image` is to be. Raises `digest_mismatch`, `source_denied` besides."""

    async def has_image(self, reference: str) -> bool: ...

    async def create(self, spec: ContainerSpec) -> str:
        """→ id. One of the same name that is there is returned as it is."""

    async def start(self, container: str) -> None:
        """A running one stays as it is."""

    async def status(self, container: str) -> Status: ...

    async def wait(self, container: str) -> Status:
        """Until it has ended. Outlasts restarts of the runtime's daemon."""

    def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        """From the cursor on; with `follow` until the container has ended and everything was read."""

    async def stats(self, container: str) -> Stats: ...

    async def exec(self, container: str, command: tuple[str, ...], timeout_s: float) -> Executed: ...

    async def attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> Terminal:
        """Args:
        tty: it gets a terminal of this size from its first moment on; pipes for None.
        """

    async def stop(self, container: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL of the whole tree. One that has ended or is gone is success."""

    async def remove(self, container: str) -> None:
        """With its sandbox, logs and scratch. One that is gone is success (RN-11)."""

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        """All that carry these labels, in every state."""
