"""What a decision reads and what it makes: `View` in, `Decision` out, `Draft` in between."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import msgspec

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_rows import AGENT_ROWS, AgentRunRow, NodeAgentRow, ReleaseRow
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.allocation_rows import AllocationRow, CordonRow, LeaseRow, LinkRow
from hostler.control.kernel.allocation_settings import AllocationSettings
from hostler.control.kernel.artifacts import ArtifactRow
from hostler.control.kernel.audit_rows import CheckpointHeadRow, CheckpointRow, CountersignatureRow
from hostler.control.kernel.bundle_rows import BundleRow
from hostler.control.kernel.credential_rows import MintRow, RunnerKeyRow
from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.job_rows import JOB_ROWS, JobView
from hostler.control.kernel.job_settings import JobSettings
from hostler.control.kernel.launch_settings import LaunchSettings
from hostler.control.kernel.log_rows import LogRow, LogUsageRow
from hostler.control.kernel.orders import Order
from hostler.control.kernel.policy_rows import PolicyRow
from hostler.control.kernel.rollout_view import RolloutView
from hostler.control.kernel.rows import (
    AttemptRow,
    CatalogRow,
    CertificateRow,
    CursorRow,
    DefinitionRow,
    DocumentRow,
    EnvelopeRow,
    EventRow,
    MetaRow,
    NodeRow,
    OperationRow,
    OperationTypeRow,
    PrincipalRow,
    ReceiptRow,
    Row,
    StepRow,
    TaskRow,
    TokenRow,
)
from hostler.control.kernel.trust_rows import KeysetRow
from hostler.control.kernel.webhook_rows import ParkedRow, WebhookCursorRow, WebhookRow
from hostler.wire.task import Policy

R = TypeVar("R", bound=Row)

# Rows that are looked up by key; the rest is only ever appended.
KEYED: tuple[type[Row], ...] = (
    NodeRow,
    CursorRow,
    CertificateRow,
    TokenRow,
    PrincipalRow,
    DefinitionRow,
    OperationTypeRow,
    CatalogRow,
    DocumentRow,
    OperationRow,
    TaskRow,
    AttemptRow,
    StepRow,
    *JOB_ROWS,
    MetaRow,
    KeysetRow,
    CheckpointRow,
    CheckpointHeadRow,
    CountersignatureRow,
    RunnerKeyRow,
    MintRow,
    PolicyRow,
    AllocationRow,
    LeaseRow,
    LinkRow,
    CordonRow,
    WebhookRow,
    WebhookCursorRow,
    BundleRow,
    EndpointRow,
    LogUsageRow,
    ParkedRow,
    *AGENT_ROWS,
)
KEYS: dict[type[Row], Any] = {type_: attrgetter(*type_.KEY) for type_ in KEYED}


class Ids(Protocol):
    """Randomness as an argument."""

    def new(self, prefix: str, now_ms: int) -> str: ...

    def nonce(self) -> bytes: ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of this control plane decided.

    Attributes:
        envelope_window_ms: how long a node may take to start a signed task (OD-30).
        control_epoch: whose tasks nodes obey now; the engine takes it from the keyset.
        log_operation_bytes: how much of an operation's logs is kept; each line counts 256 bytes more than its text.
        start_within_ms: how long a task may wait for its node before it ends as `expired`.
    """

    policy: Policy = Policy()
    policy_digest: str = ""
    envelope_window_ms: int = 600_000
    start_within_ms: int = 86_400_000
    max_tasks: int = 10_000
    log_operation_bytes: int = 256 << 20
    control_epoch: int = 1
    asks_outside: bool = False  # a tenant's request needs the answer of a policy engine as well (AZ-11)
    allocations: AllocationSettings = AllocationSettings()
    jobs: JobSettings = JobSettings()
    agents: AgentSettings = AgentSettings()
    launches: LaunchSettings = LaunchSettings()


class View(JobView, RolloutView, Protocol):
    """What is stored, as of the last applied decision. Only what a command asks for is read."""

    def get(self, type_: type[R], key: Any) -> R | None: ...

    def nodes_of(self, org_id: str, project_id: str) -> Iterable[NodeRow]: ...

    def nodes_named(self, name: str) -> Iterable[NodeRow]: ...

    def all_nodes(self) -> Iterable[NodeRow]: ...

    def connected_nodes(self) -> Iterable[NodeRow]: ...

    def certificates_of(self, node_id: str) -> Iterable[CertificateRow]: ...

    def operation_by_key(self, org_id: str, project_id: str, idempotency_key: str) -> OperationRow | None: ...

    def tasks_of(self, operation_id: str) -> Iterable[TaskRow]: ...

    def open_tasks_on(self, node_id: str) -> Iterable[TaskRow]: ...

    def overdue_tasks(self, now_ms: int, limit: int) -> Iterable[TaskRow]: ...

    def assigned_tasks(self) -> Iterable[TaskRow]: ...

    def unanswered_cancels(self, now_ms: int, limit: int) -> Iterable[TaskRow]: ...

    def stalled_launches(self, expires_until_ms: int, expires_after_ms: int, limit: int) -> Iterable[TaskRow]: ...

    def steps_of(self, task_id: str, attempt_number: int) -> Iterable[StepRow]: ...

    def current_catalog(self) -> CatalogRow | None: ...

    def latest_checkpoint(self) -> CheckpointRow | None: ...

    def policies(self) -> Mapping[tuple[str, str, str], PolicyRow]: ...

    def webhooks(self) -> Iterable[WebhookRow]: ...

    def bundle_bytes(self, org_id: str, project_id: str) -> int: ...

    def bundle_is_named(self, project_id: str, sha256: str) -> bool: ...

    def unused_bundles(self, since_ms: int, limit: int) -> Iterable[BundleRow]: ...

    def parked_of(self, webhook_id: str, limit: int) -> Iterable[ParkedRow]: ...

    def in_flight(self, operation_type: str, scope: str, scope_id: str) -> int: ...

    def waiting_operations(self, operation_type: str, limit: int) -> Iterable[OperationRow]: ...
    def allocation_by_external(self, org_id: str, project_id: str, external_id: str) -> AllocationRow | None: ...

    def pool_nodes(self) -> Iterable[NodeRow]: ...

    def free_nodes(self) -> int: ...

    def waiting_allocations(self) -> Iterable[AllocationRow]: ...

    def leases_of(self, allocation_id: str) -> Iterable[LeaseRow]: ...

    def overdue_links(self, now_ms: int, limit: int) -> Iterable[LinkRow]: ...

    def open_operations_of(self, allocation_id: str) -> Iterable[OperationRow]: ...

    def cordons_of(self, node_id: str) -> Iterable[CordonRow]: ...

    def all_releases(self) -> Iterable[ReleaseRow]: ...

    def releases_of(self, version: str) -> Iterable[ReleaseRow]: ...

    def agents_in(self, channel: str) -> Iterable[NodeAgentRow]: ...

    def due_agent_runs(self, now_ms: int, limit: int) -> Iterable[AgentRunRow]: ...

    def endpoints_of_task(self, task_id: str) -> Iterable[EndpointRow]: ...

    def endpoints_over(self, now_ms: int, limit: int) -> Iterable[EndpointRow]: ...


class Decision(msgspec.Struct, kw_only=True):
    """Everything one command changes. The engine adds envelopes, then applies it whole or not at all."""

    result: Any = None
    refusal: HostlerError | None = None
    inserts: dict[type[Row], list[Row]] = {}
    updates: dict[type[Row], list[Row]] = {}
    receipts: list[ReceiptRow] = []
    artifacts: list[ArtifactRow] = []
    logs: list[LogRow] = []
    deletes: dict[type[Row], list[Any]] = {}  # keys, of rows that point at others first
    pruned_logs: int = 0  # lines up to this id are dropped
    events: list[EventRow] = []
    envelopes: list[EnvelopeRow] = []
    orders: list[Order] = []
    wake: set[str] = set()
    revoked: list[str] = []
    scheduling: dict[str, str] = {}
    desired: dict[str, str] = {}


class Draft:
    """A decision in the making: reads through what it has changed already."""

    def __init__(self, view: View, settings: Settings, ids: Ids, now_ms: int) -> None:
        self.view = view
        self.settings = settings
        self.ids = ids
        self.now_ms = now_ms
        self.events: list[EventRow] = []
        self.logs: list[LogRow] = []
        self.pruned_logs = 0
        self.receipts: list[ReceiptRow] = []
        self.artifacts: list[ArtifactRow] = []
        self.orders: dict[tuple[str, int], Order] = {}
        self.wake: set[str] = set()
        self.revoked: list[str] = []
        self.scheduling: dict[str, str] = {}  # of nodes whose scheduling has changed
        self.touched: dict[tuple[str, str], None] = {}  # (operation, node) of a task that ended, if bound to either
        self.moved: dict[str, None] = {}  # allocations of which a node moved
        self.freed: dict[str, None] = {}  # nodes that may have become assignable
        self.desired: dict[str, str] = {}  # of nodes whose agent should be of another version from now on
        self.agent_nodes: dict[str, None] = {}  # whose lifecycle run may have a next step
        self.ended_runs: dict[str, None] = {}  # lifecycle runs
        self.follow: Callable[[Draft], None] = lambda _: None
        self.take_again: Callable[[Draft, TaskRow, str, str, str, str], TaskRow | None] = lambda *_: None
        self.job_tasks: dict[str, None] = {}  # of jobs, that ended
        # (org, project, allocation) whose waiting jobs are looked at, and for which nodes: None for all
        self.pools: dict[tuple[str, str, str], set[str] | None] = {}
        self.rollouts: dict[str, None] = {}  # of which something may have moved
        self.noticed: set[str] = set()  # nodes whose change in this decision was looked at for rollouts
        self._deleted: dict[type[Row], list[Any]] = {}
        self._rows: dict[type[Row], dict[Any, Row]] = {}
        self._new: dict[type[Row], dict[Any, None]] = {}  # in order

    def get(self, type_: type[R], key: Any) -> R | None:
        held = self._rows.get(type_)
        if held is not None and key in held:
            return held[key]  # type: ignore[return-value]  # rows are filed under their own type
        return self.view.get(type_, key)

    def insert(self, row: Row) -> None:
        type_ = type(row)
        key = KEYS[type_](row)
        self._rows.setdefault(type_, {})[key] = row
        self._new.setdefault(type_, {})[key] = None

    def update(self, row: Row) -> None:
        type_ = type(row)
        self._rows.setdefault(type_, {})[KEYS[type_](row)] = row

    def delete(self, type_: type[Row], key: Any) -> None:
        """For a row that nothing in this decision reads or changes after it."""
        self._deleted.setdefault(type_, []).append(key)

    def current(self, rows: Iterable[R]) -> Iterator[R]:
        """The same rows, each as this draft has it at the moment it is looked at."""
        for row in list(rows):
            held = self._rows.get(type(row))
            yield held.get(KEYS[type(row)](row), row) if held else row  # type: ignore[misc]  # as above

    def open_tasks_on(self, node_id: str) -> Iterator[TaskRow]:
        """A node's tasks that have not ended, also not by what was done to the ones before them."""
        return (task for task in self.current(self.view.open_tasks_on(node_id)) if not task.finished_at_ms)

    def tasks_of(self, operation_id: str) -> list[TaskRow]:
        """Stored tasks and those this draft has made."""
        rows, fresh = self._rows.get(TaskRow, {}), self._new.get(TaskRow, ())
        made = [rows[key] for key in fresh]
        own = [row for row in made if isinstance(row, TaskRow) and row.operation_id == operation_id]
        return [*self.current(self.view.tasks_of(operation_id)), *own]

    def policies(self) -> Mapping[tuple[str, str, str], PolicyRow]:
        """Every overlay, by (scope, scope id, operation type)."""
        stored, held = self.view.policies(), self._rows.get(PolicyRow)
        return {**stored, **held} if held else stored  # type: ignore[dict-item]  # filed under their own type

    def in_flight(self, operation_type: str, scope: str, scope_id: str) -> int:
        """Tasks of a type that are in flight in a scope, as this draft has it."""
        total = self.view.in_flight(operation_type, scope, scope_id)
        for row in self._rows.get(OperationRow, {}).values():
            if isinstance(row, OperationRow) and row.operation_type == operation_type and _is_in(row, scope, scope_id):
                before = self.view.get(OperationRow, row.operation_id)
                total += row.tasks_in_flight - (before.tasks_in_flight if before else 0)
        return total

    def rows_of(self, type_: type[R], stored: Iterable[R]) -> list[R]:
        """Stored rows as this draft has them, and those of the type that it has made."""
        made = [self._rows[type_][key] for key in self._new.get(type_, ())]
        known = {KEYS[type_](row) for row in made}
        return [*(row for row in self.current(stored) if KEYS[type_](row) not in known), *made]  # type: ignore[list-item]

    def matching(self, type_: type[R], stored: Iterable[R], keep: Callable[[R], bool]) -> list[R]:
        """Stored rows, those this draft has made, and those it has changed so that they belong there now."""
        key = KEYS[type_]
        found: dict[Any, Any] = {key(row): row for row in stored} | self._rows.get(type_, {})
        return [row for row in found.values() if keep(row)]

    def changed(self, type_: type[R]) -> Iterator[tuple[R, R]]:
        """Rows that were there before, each as it was and as this draft has it."""
        fresh = self._new.get(type_, ())
        for key, row in list(self._rows.get(type_, {}).items()):
            before = None if key in fresh else self.view.get(type_, key)
            if before is not None:
                yield before, row  # type: ignore[misc]  # as above

    def look_at(self, org_id: str, project_id: str, allocation_id: str, node_id: str = "") -> None:
        """Something became free for the jobs of a pool: on one node, or anywhere."""
        key = org_id, project_id, allocation_id
        nodes = self.pools.setdefault(key, set())
        if not node_id:
            self.pools[key] = None
        elif nodes is not None:
            nodes.add(node_id)

    def decision(self, result: Any = None, refusal: HostlerError | None = None) -> Decision:
        self.follow(self)
        inserts: dict[type[Row], list[Row]] = {}
        updates: dict[type[Row], list[Row]] = {}
        for type_, rows in self._rows.items():
            fresh = self._new.get(type_)
            if not fresh:
                updates[type_] = list(rows.values())
            elif len(fresh) == len(rows):
                inserts[type_] = list(rows.values())
            else:
                inserts[type_] = [row for key, row in rows.items() if key in fresh]
                updates[type_] = [row for key, row in rows.items() if key not in fresh]
        return Decision(
            result=result,
            refusal=refusal,
            inserts=inserts,
            updates=updates,
            receipts=self.receipts,
            artifacts=self.artifacts,
            logs=self.logs,
            deletes=self._deleted,
            pruned_logs=self.pruned_logs,
            events=self.events,
            orders=list(self.orders.values()),
            wake=self.wake,
            revoked=self.revoked,
            scheduling=self.scheduling,
            desired=self.desired,
        )


def _is_in(operation: OperationRow, scope: str, scope_id: str) -> bool:
    return scope == "global" or scope_id == (operation.org_id if scope == "tenant" else operation.project_id)
