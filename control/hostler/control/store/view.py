"""What the kernel sees: rows by key through a cache, the rest by query. Used by the writer thread alone."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow, ReleaseRow
from hostler.control.kernel.allocation_rows import AllocationRow, CordonRow, LeaseRow, LinkRow
from hostler.control.kernel.audit_rows import CheckpointRow
from hostler.control.kernel.bundle_rows import BundleRow
from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.model import KEYS
from hostler.control.kernel.policy_rows import PolicyRow
from hostler.control.kernel.rows import (
    CatalogRow,
    CertificateRow,
    NodeRow,
    OperationRow,
    Row,
    StepRow,
    TaskRow,
)
from hostler.control.kernel.webhook_rows import ParkedRow, WebhookRow
from hostler.control.store import bundles, local_tasks
from hostler.control.store.job_view import JobQueries
from hostler.control.store.rollout_view import RolloutQueries
from hostler.control.store.tables import STATEMENTS

R = TypeVar("R", bound=Row)
MAX_CACHED = 50_000
_NAMES_BUNDLE = """SELECT 1 FROM operations WHERE project_id = ? AND status IN ('queued', 'running')
    AND operation_type LIKE 'job.container.%' AND inputs LIKE ? LIMIT 1"""
_FREE = """SELECT count(*) FROM nodes INDEXED BY nodes_free WHERE pool = 1 AND allocation_id = ''
    AND connection = 'connected' AND reclaim = 'clean' AND health = 'ok' AND scheduling = 'schedulable'"""


class StoreView(JobQueries, RolloutQueries):
    """Implements `kernel.model.View`.

    A row enters the cache when it is read or decided. What was decided and not yet written is always in the
    cache, or written by `before_query` before anything but a key is asked for. After a roll-back: `forget`.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.before_query: Callable[[], None] = lambda: None
        self._cache: dict[type[Row], dict[Any, Row]] = {type_: {} for type_ in KEYS}
        self._policies: Mapping[tuple[str, str, str], PolicyRow] | None = None
        self._members = {}
        self._select = {type_: STATEMENTS[type_].select for type_ in KEYS}
        self._select[TaskRow] = local_tasks.ONE

    def get(self, type_: type[R], key: Any) -> R | None:
        cached = self._cache[type_].get(key)
        if cached is not None:
            return cached  # type: ignore[return-value]  # rows are filed under their own type
        found = self._db.execute(self._select[type_], key if isinstance(key, tuple) else (key,)).fetchone()
        return None if found is None else self._file(_row(type_, found))

    def forget(self) -> None:
        self._policies = None
        self._members.clear()
        for cache in self._cache.values():
            cache.clear()

    def remember(self, type_: type[Row], rows: Iterable[Row]) -> None:
        """Files rows that were written."""
        if type_ is PolicyRow:
            self._policies = None
        cache = self._cache[type_]
        if len(cache) > MAX_CACHED:
            self.before_query()
            cache.clear()
        key = KEYS[type_]
        for row in rows:
            cache[key(row)] = row

    def drop(self, type_: type[Row], keys: Iterable[Any]) -> None:
        """Rows that were deleted."""
        for key in keys:
            self._cache[type_].pop(key, None)

    def _file(self, row: R) -> R:
        self.remember(type(row), (row,))
        return row

    def _all(self, type_: type[R], sql: str, parameters: Any) -> list[R]:
        """Rows of a query, each as the cache has it (the same, and decoded before)."""
        self.before_query()
        cache, key = self._cache[type_], KEYS[type_]
        found = [_row(type_, values) for values in self._db.execute(sql, parameters)]
        return [cache.setdefault(key(row), row) for row in found]  # type: ignore[misc]  # as in `get`

    def _where(self, type_: type[R], condition: str, *parameters: Any) -> list[R]:
        statements = STATEMENTS[type_]
        head, _, _ = statements.select.partition(" WHERE ")
        return self._all(type_, f"{head} WHERE {condition}", parameters)

    def _pairs(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        self.before_query()
        return self._db.execute(sql, parameters).fetchall()

    def nodes_of(self, org_id: str, project_id: str) -> list[NodeRow]:
        return self._where(NodeRow, "org_id = ? AND project_id = ? ORDER BY node_id", org_id, project_id)

    def nodes_named(self, name: str) -> list[NodeRow]:
        return self._where(NodeRow, "name = ? ORDER BY state, enrolled_at_ms DESC", name)

    def all_nodes(self) -> list[NodeRow]:
        return self._where(NodeRow, "1 ORDER BY node_id")

    def connected_nodes(self) -> list[NodeRow]:
        return self._where(NodeRow, "connection = 'connected'")

    def certificates_of(self, node_id: str) -> list[CertificateRow]:
        return self._where(CertificateRow, "node_id = ?", node_id)

    def operation_by_key(self, org_id: str, project_id: str, idempotency_key: str) -> OperationRow | None:
        condition = "project_id = ? AND org_id = ? AND idempotency_key = ?"
        found = self._where(OperationRow, condition, project_id, org_id, idempotency_key)
        return found[0] if found else None

    def tasks_of(self, operation_id: str) -> list[TaskRow]:
        return self._all(TaskRow, local_tasks.OF_OPERATION, (operation_id,))

    def open_tasks_on(self, node_id: str) -> list[TaskRow]:
        return self._all(TaskRow, local_tasks.OPEN_ON_NODE, (node_id,))

    def overdue_tasks(self, now_ms: int, limit: int) -> list[TaskRow]:
        return self._all(TaskRow, local_tasks.OVERDUE, {"now": now_ms, "limit": limit})

    def assigned_tasks(self) -> list[TaskRow]:
        return self._all(TaskRow, local_tasks.ASSIGNED, ())

    def unanswered_cancels(self, now_ms: int, limit: int) -> list[TaskRow]:
        return self._all(TaskRow, local_tasks.UNANSWERED, {"now": now_ms, "limit": limit})

    def stalled_launches(self, expires_until_ms: int, expires_after_ms: int, limit: int) -> list[TaskRow]:
        """Taken by a node that is there and has room, and not begun as far as we know."""
        window = {"until": expires_until_ms, "after": expires_after_ms, "limit": limit}
        return self._all(TaskRow, local_tasks.STALLED, window)

    def steps_of(self, task_id: str, attempt_number: int) -> list[StepRow]:
        return self._where(StepRow, "task_id = ? AND attempt_number = ?", task_id, attempt_number)

    def webhooks(self) -> list[WebhookRow]:
        return self._where(WebhookRow, "state != 'deleted'")

    def bundle_bytes(self, org_id: str, project_id: str) -> int:
        self.before_query()
        return bundles.kept_bytes(self._db, org_id, project_id)

    def bundle_is_named(self, project_id: str, sha256: str) -> bool:
        """Whether a job of the project that has not ended names it; a digest stands for nothing else in inputs."""
        self.before_query()
        asked = (project_id, f"%{sha256}%")
        return self._db.execute(_NAMES_BUNDLE, asked).fetchone() is not None

    def unused_bundles(self, since_ms: int, limit: int) -> list[BundleRow]:
        condition = "state = 'held' AND last_used_ms < ? ORDER BY last_used_ms LIMIT ?"
        return self._where(BundleRow, condition, since_ms, limit)

    def parked_of(self, webhook_id: str, limit: int) -> list[ParkedRow]:
        """Not taken yet, in the order of the log."""
        return self._where(
            ParkedRow, "webhook_id = ? AND state != 'taken' ORDER BY event_id LIMIT ?", webhook_id, limit
        )

    def current_catalog(self) -> CatalogRow | None:
        found = self._where(CatalogRow, "1 ORDER BY registered_at_ms DESC, version DESC LIMIT 1")
        return found[0] if found else None

    def policies(self) -> Mapping[tuple[str, str, str], PolicyRow]:
        """All overlays; few, and asked for with every task, so they are kept."""
        if self._policies is None:
            found = self._where(PolicyRow, "1")  # fills the cache by way of `setdefault`, not of `remember`
            self._policies = {KEYS[PolicyRow](row): row for row in found}
        return self._policies

    def in_flight(self, operation_type: str, scope: str, scope_id: str) -> int:
        """Tasks of a type in flight in a scope: `global`, `tenant` or `project`."""
        self.before_query()
        column = {"global": "", "tenant": " AND org_id = ?", "project": " AND project_id = ?"}[scope]
        asked = (operation_type, scope_id) if column else (operation_type,)
        sql = f"SELECT total(tasks_in_flight) FROM operations WHERE operation_type = ? AND tasks_in_flight > 0{column}"  # noqa: S608
        return int(self._db.execute(sql, asked).fetchone()[0])

    def waiting_operations(self, operation_type: str, limit: int) -> list[OperationRow]:
        """Oldest first, those of a type ("" for any) with a queued task whose node could take it."""
        return self._all(OperationRow, local_tasks.WAITING_OPERATIONS, {"type": operation_type, "limit": limit})

    def pool_nodes(self) -> list[NodeRow]:
        return self._where(NodeRow, "pool = 1 ORDER BY node_id")

    def free_nodes(self) -> int:
        """How many nodes of the pool are free, as far as one index can tell: never fewer than can be given out."""
        self.before_query()
        (count,) = self._db.execute(_FREE).fetchone()
        return int(count)

    def allocation_by_external(self, org_id: str, project_id: str, external_id: str) -> AllocationRow | None:
        condition = "project_id = ? AND org_id = ? AND external_id = ? AND external_id != ''"
        return next(iter(self._where(AllocationRow, condition, project_id, org_id, external_id)), None)

    def waiting_allocations(self) -> list[AllocationRow]:
        return self._where(AllocationRow, "state = 'requested' ORDER BY allocation_id")

    def leases_of(self, allocation_id: str) -> list[LeaseRow]:
        return self._where(LeaseRow, "allocation_id = ?", allocation_id)

    def overdue_links(self, now_ms: int, limit: int) -> list[LinkRow]:
        condition = "state IN ('waiting', 'running') AND deadline_ms <= ? ORDER BY deadline_ms LIMIT ?"
        return self._where(LinkRow, condition, now_ms, limit)

    def open_operations_of(self, allocation_id: str) -> list[OperationRow]:
        condition = "linked_allocation_id = ? AND status IN ('queued', 'running') ORDER BY operation_id"
        return self._where(OperationRow, condition, allocation_id)

    def cordons_of(self, node_id: str) -> list[CordonRow]:
        return self._where(CordonRow, "node_id = ?", node_id)

    def all_releases(self) -> list[ReleaseRow]:
        return self._where(ReleaseRow, "1 ORDER BY version, suite")

    def releases_of(self, version: str) -> list[ReleaseRow]:
        return self._where(ReleaseRow, "version = ? ORDER BY suite", version)

    def agents_in(self, channel: str) -> list[NodeAgentRow]:
        return self._where(NodeAgentRow, "channel = ? ORDER BY node_id", channel)

    def due_agent_runs(self, now_ms: int, limit: int) -> list[AgentRunRow]:
        condition = "finished_at_ms = 0 AND deadline_ms <= ? ORDER BY deadline_ms LIMIT ?"
        return self._where(AgentRunRow, condition, now_ms, limit)

    def endpoints_of_task(self, task_id: str) -> list[EndpointRow]:
        return self._where(EndpointRow, "task_id = ?", task_id)

    def endpoints_over(self, now_ms: int, limit: int) -> list[EndpointRow]:
        """Registered ones whose lease or attempt is over."""
        return self._all(EndpointRow, local_tasks.ENDPOINTS_OVER, {"now": now_ms, "limit": limit})

    def latest_checkpoint(self) -> CheckpointRow | None:
        found = self._where(CheckpointRow, "checkpoint_index = (SELECT max(checkpoint_index) FROM checkpoints)")
        return found[0] if found else None


def _row(type_: type[R], values: tuple[Any, ...]) -> R:
    return type_(**dict(zip(type_.__struct_fields__, values, strict=True)))
