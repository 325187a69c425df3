"""What a workload step needs of the node besides the host; the daemon puts it together, a step only uses it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from hostler.agent.containers.device_book import Devices
from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.containers.settings import ContainerSettings


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Who a running task is: what its environment and its task API tell it (TE-01, TE-07).

    Attributes:
        job_id: the operation's id.
        job: the job's path.
        task_index: of `num_tasks`.
        node_address: under which other nodes reach this one (TE-23).
        ports: name → host port.
    """

    job_id: str
    job: str
    parent: str
    namespace: str
    task_id: str
    attempt_uid: str
    attempt_number: int
    task_index: int
    num_tasks: int
    org_id: str
    project_id: str
    node_id: str
    node_address: str
    ports: dict[str, int] = {}


class Ports(Protocol):
    """Host ports of this node: none is given twice while it is held (TE-09, TE-21)."""

    def take(self, attempt_uid: str, names: Sequence[str]) -> dict[str, int]:
        """The same ones again for an attempt that holds some. Raises `ports_exhausted`."""

    def hold(self, attempt_uid: str, ports: dict[str, int]) -> None:
        """What an adopted container has already."""

    def held(self, attempt_uid: str) -> dict[str, int]:
        """By name; none for an attempt that has ended."""

    def free(self, attempt_uid: str) -> None: ...


class TaskServer(Protocol):
    """The task API (design: a unix socket a container)."""

    def serve(self, facts: TaskFacts) -> AbstractAsyncContextManager[Path]:
        """→ the directory with the socket `task.sock`, to be mounted at /run/hostler; gone at the end.

        An attempt gets the same directory again (the very inode: a container that outlives an agent has it mounted),
        so the directory stays where the block ends by cancellation, which is how an agent stops.
        """

    def discard(self, attempt_uid: str) -> None:
        """Removes what is left of an attempt that has ended; nothing there is success."""


class Bundles(Protocol):
    async def fetch(self, facts: TaskFacts, sha256: str) -> Path:
        """The unpacked bundle, verified; shared by tasks of one project. Raises `digest_mismatch`, `unsafe_archive`.

        It stays until the attempt is released; the attempt may ask again after a restart.
        """

    async def release(self, attempt_uid: str) -> None:
        """The attempt has ended: what it used may go when room is needed."""


class Workloads(Protocol):
    """Everything together.

    Attributes:
        kept_paths: what no container ever sees of this node: its state, its configuration, the runtimes' sockets.
    """

    @property
    def ports(self) -> Ports: ...
    @property
    def devices(self) -> Devices: ...
    @property
    def tasks(self) -> TaskServer: ...
    @property
    def bundles(self) -> Bundles: ...
    @property
    def settings(self) -> ContainerSettings: ...
    @property
    def node_id(self) -> str: ...
    @property
    def node_address(self) -> str: ...
    @property
    def kept_paths(self) -> tuple[str, ...]: ...

    def runtime(self, name: str = "") -> ContainerRuntime:
        """By name, or the one that `agent.toml` or this machine prefers. Raises `runtime_unavailable`."""

    def runtimes(self) -> tuple[ContainerRuntime, ...]:
        """All that this node has, for looking what runs; the preferred one first."""

    async def look(self, runtime: ContainerRuntime) -> None:
        """Takes note, once, of ports and devices of containers that outlived an agent. Raises `runtime_unavailable`."""

    def begun(self, attempt_uid: str, runtime: ContainerRuntime) -> None:
        """Something of the attempt may be in that runtime: while it does not answer, the attempt is not cleared."""

    def scratch(self, attempt_uid: str) -> Path:
        """A directory of the attempt's own, writable by any user inside its containers."""

    def device_lost(self, attempt_uid: str, node: str) -> None:
        """A device that a running container was given is gone; the node is degraded for as long as that runs (K8)."""

    def silent_seconds(self) -> float:
        """Since the control plane was heard last, infinite before the first word; for hard fences (EF-05)."""

    def ended(self, attempt_uid: str) -> None:
        """The attempt's end is durable: whatever is left of it here is stopped and removed, in the background."""
