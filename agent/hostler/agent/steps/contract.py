"""What every step kind offers: plan, apply, probe (design §5).

    plan(view)     what would change; touches nothing
    apply(context) makes it so; idempotent, cancellable, reports progress
    probe(view)    the truth after a crash: done, not done, or ambiguous

A kind is a module-level object `KIND` in `hostler.agent.steps.<kind with dots as underscores>`.
It keeps no state of its own: what must survive a restart goes through `save_checkpoint`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from hostler.agent.containers.runtime import Line
from hostler.agent.containers.session import RelayLink
from hostler.agent.containers.workload import Workloads
from hostler.agent.host.host import Host
from hostler.agent.journal.rows import PastStep
from hostler.agent.journal.truth import TaskTruth
from hostler.agent.resolver.resolver import Resolver
from hostler.agent.secrets.table import StepSecrets
from hostler.agent.upgrade.installed import Installed
from hostler.base.clock import Deadline
from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError, StepFailed
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.policy import allows_source
from hostler.wire.report import Artifact
from hostler.wire.task import Policy

if TYPE_CHECKING:  # an idle agent carries no ctypes for secrets that it does not have
    from hostler.agent.secrets.secret import Secret


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a step would do.

    Attributes:
        action: create, replace, keep, fetch, run, check, ...
        target: path, URL, command line, check name.
        detail: unified diff, byte count, or a sentence.
        bytes: what would be transferred, 0 otherwise.
    """

    action: str
    target: str
    detail: str = ""
    bytes: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What a step would change. Equal plans have equal digests; approval is given to the digest."""

    changes: tuple[Change, ...]

    def digest(self) -> str:
        return digest_of(msgspec.to_builtins(self))


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """A file before or after a step, for the receipt."""

    path: str
    sha256: str = ""
    size_bytes: int = 0
    mode: str = ""
    exists: bool = True


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a step did, when it succeeded. Failure is an exception (`StepFailed` and others; `FailedWith` has both).

    Attributes:
        outputs: plain JSON values that later steps may bind, by name.
        argv_digest, exit_status: for kinds that run a command.
        files_before, files_after: what the step touched.
        artifacts: what it took in, by digest; outputs are added where the definition declares them.
    """

    outputs: dict[str, Any] = {}
    changed: bool = True
    argv_digest: str = ""
    exit_status: int | None = None
    files_before: tuple[FileState, ...] = ()
    files_after: tuple[FileState, ...] = ()
    artifacts: tuple[Artifact, ...] = ()


class FailedWith(StepFailed):
    """A failure that leaves something to tell: its outcome goes into report and receipt, and binds to no later step."""

    def __init__(self, err: HostlerError, outcome: Outcome) -> None:
        super().__init__(err.code, err.message, hint=err.hint)
        self.outcome = outcome


class MintOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a credential, on behalf of one step (CR-01)."""

    task_id: str
    operation_id: str
    attempt_uid: str
    step_id: str
    credential_type: str
    intent: dict[str, Any]
    part: str


class MintedSecret(NamedTuple):
    """`one_time`: using it once uses it up."""

    secret: "Secret"
    expires_at_ms: int
    one_time: bool


class Truth(StrEnum):
    DONE = "done"
    NOT_DONE = "not_done"
    AMBIGUOUS = "ambiguous"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is set when the truth is DONE; `error_code` when it is known to have failed.

    Attributes:
        alive: with NOT_DONE: it was begun and may run on. Only `apply` takes that up, or ends it where the task was
            cancelled, and it needs no credential for either.
    """

    truth: Truth
    alive: bool = False
    outcome: Outcome | None = None
    error_code: str = ""
    note: str = ""


@dataclass(frozen=True)
class StepView:
    """What plan and probe may see. Times are milliseconds, paths are as the task names them."""

    host: Host
    params: Any
    task_id: str
    step_id: str
    step_index: int
    attempt_number: int
    policy: Policy
    allowed_sources: tuple[str, ...] | None = None  # of the definition; the policy's stand in `policy`
    local_source: Callable[[str], bool] = lambda _: True  # whether this node's own configuration lets a URL in
    allowed_packages: tuple[str, ...] = ()  # of the definition, less what this node forbids
    command: CommandProfile | None = None  # that the step names, or that an abstract kind resolved to
    hardware_match: str = ""  # id of the rule that resolved an abstract kind
    resolver: Resolver | None = None
    checkpoint: dict[str, Any] = field(default_factory=dict)
    artifact_keys: tuple[bytes, ...] = ()  # SPKI DER of keys that may sign artifacts
    allocation_id: str = ""  # that the envelope is bound to
    past: Callable[[], tuple[PastStep, ...]] = tuple  # what ended here for the allocation, oldest first
    operation_id: str = ""
    org_id: str = ""
    project_id: str = ""
    attempt_uid: str = ""
    replica_index: int = 0
    envelope_digest: str = ""
    truth: Callable[[str, str], TaskTruth] = lambda *_: TaskTruth()  # of an attempt of a task, by the journal
    sees_all_tasks: bool = False  # asked for by an administrator or the control plane itself, not by a tenant
    workloads: Workloads | None = None  # for kinds that run containers; None where there are none
    installed: Installed | None = None  # for kinds that change the agent itself

    def may_fetch(self, url: str) -> bool:
        """Whether everything that limits sources admits a URL: policy, definition, this node's own (AR-06, AZ-09)."""
        return allows_source(self.policy, self.allowed_sources, url) and self.local_source(url)


@dataclass(frozen=True)
class StepContext(StepView):
    """What apply may use besides."""

    deadline: Deadline = field(kw_only=True)
    cancelled: asyncio.Event = field(kw_only=True)
    progress: Callable[[int, int, str], None] = field(kw_only=True)  # done, total (0 unknown), unit
    log: Callable[[str, str], None] = field(kw_only=True)  # stream (stdout, stderr, agent), line
    # of workloads: lines and their phase; returns when they and the cursor behind them are on disk, and more may come
    log_batch: Callable[[Sequence[Line], str], Awaitable[None]] = field(kw_only=True)
    log_cursor: Callable[[str], str] = field(kw_only=True)  # phase → behind what was shipped, "" to begin
    save_checkpoint: Callable[[dict[str, Any]], Awaitable[None]] = field(kw_only=True)
    secrets: StepSecrets = field(kw_only=True)
    confined: Callable[[dict[str, Any]], None] = field(kw_only=True)  # for the receipt: what it was held to
    # asks for a credential: type, intent, part
    mint: Callable[[str, dict[str, Any], str], Awaitable[MintedSecret]] = field(kw_only=True)
    relay: Callable[[str], AbstractAsyncContextManager[RelayLink]] = field(kw_only=True)  # by its id
    certify: Callable[[dict[str, Any]], bytes] = field(kw_only=True)  # DSSE JSON: a hand-over in the node's name
    report_again: Callable[[str], Awaitable[None]] = field(kw_only=True)  # the result of a task that has ended


class StepKind(Protocol):
    """Errors are `HostlerError`s; anything else ends the task as `internal_error`."""

    name: str

    async def plan(self, view: StepView) -> Plan: ...

    async def apply(self, context: StepContext) -> Outcome: ...

    async def probe(self, view: StepView) -> Probe: ...
