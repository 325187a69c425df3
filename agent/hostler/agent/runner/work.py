"""What the runner needs of others, as it sees them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from hostler.agent.containers.session import RelayLink
from hostler.agent.containers.workload import Workloads
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.rows import ForAllocation, TaskKey
from hostler.agent.journal.spool import LogSpool
from hostler.agent.resolver.resolver import Resolver
from hostler.agent.runner.receipt import ReceiptMaker
from hostler.agent.steps.contract import MintedSecret, MintOrder
from hostler.agent.upgrade.installed import Installed
from hostler.base.clock import Clock
from hostler.base.envelope import Envelope
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.pki.trust import TrustStore
from hostler.wire.report import StepProgress
from hostler.wire.task import TaskSpec

CONTAINER_RUN = "container.run"
BESIDE = frozenset({"task.exec", "task.forward", "task.profile"})
SWITCHES = frozenset({"agent.upgrade.activate", "agent.upgrade.rollback"})


class Work(Protocol):
    """An admitted task; `admission.verdict.Admitted` is one, and so is one found in the journal."""

    @property
    def envelope(self) -> Envelope: ...
    @property
    def envelope_digest(self) -> str: ...
    @property
    def spec(self) -> TaskSpec: ...
    @property
    def definition(self) -> Definition: ...
    @property
    def commands(self) -> dict[str, CommandProfile]: ...
    @property
    def inputs(self) -> dict[str, Any]: ...
    @property
    def keyset_version(self) -> int: ...


class StepAuthority(Protocol):
    """`admission.authority.LocalAuthority`, over parameters that are now bound."""

    def check_step(self, kind: str, params: msgspec.Struct, command: CommandProfile | None) -> None: ...
    def permits_source(self, url: str) -> bool: ...
    def permitted_packages(self, names: tuple[str, ...]) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Parts:
    """What every task of this node shares."""

    journal: Journal
    host: Host
    receipts: ReceiptMaker
    clock: Clock
    progress: Callable[[StepProgress], None]
    trust: Callable[[], TrustStore]
    authority: StepAuthority
    redact: Callable[[str], str]
    resolver: Resolver
    mint: Callable[[MintOrder], Awaitable[MintedSecret]]
    spool: LogSpool
    relay: Callable[[str], AbstractAsyncContextManager[RelayLink]]
    workloads: Workloads | None = None
    installed: Installed | None = None


def allocation_of(work: Work) -> ForAllocation | None:
    """The allocation that the envelope binds, or else the input of that name."""
    spec = work.spec
    named = spec.allocation_id or work.inputs.get("allocation_id")
    if not isinstance(named, str) or not named:
        return None
    return ForAllocation(named, f"{spec.operation_type}@{spec.version}", spec.operation_id)


def runs_beside(spec: TaskSpec) -> bool:
    """Whether it only looks at what runs: it takes nobody's slot, and a node that is drained lets it in."""
    return all(step.kind in BESIDE for step in spec.steps)


def key_of(spec: TaskSpec) -> TaskKey:
    return TaskKey(spec.task_id, spec.attempt_number)


def outlives_agent(spec: TaskSpec) -> bool:
    """Whether a step of it goes on while the agent is stopped: a container, or the very restart that stops it."""
    return runs_containers(spec) or any(step.kind in SWITCHES for step in spec.steps)


def runs_containers(spec: TaskSpec) -> bool:
    """Whether a step of it runs for as long as a workload does, and outlives an agent."""
    return any(step.kind == CONTAINER_RUN for step in spec.steps)
