"""Read-only queries off the loop: two threads, each with its own connection."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from hostler.base.clock import Clock
from hostler.control.kernel.job_nodes import NodeState
from hostler.control.kernel.policy_rows import PolicyRow
from hostler.control.store import (
    allocation_queries,
    artifacts,
    audit_log,
    bundles,
    checkpoints,
    endpoints,
    events,
    job_queries,
    lifecycle,
    policies,
    queries,
    rollout_queries,
    task_logs,
    webhooks,
)
from hostler.control.store.agent_reader import AgentReader
from hostler.control.store.allocation_queries import AllocationSummary, AllocationView
from hostler.control.store.db import open_reader, store_error
from hostler.control.store.endpoints import JobState, TaskCaller
from hostler.control.store.events import Stretch
from hostler.control.store.job_queries import JobTaskView, JobView, NodeCapacity
from hostler.control.store.records import (
    ArtifactView,
    AssignedTask,
    AuditView,
    BundleView,
    ChainReach,
    CheckpointTimes,
    DefinitionView,
    EndpointView,
    EventView,
    LogView,
    NodeIdentity,
    NodeReceipts,
    NodeTrust,
    NodeView,
    OperationSummary,
    OperationView,
    Page,
    ParkedView,
    Principal,
    StoredCheckpoint,
    WebhookView,
)
from hostler.control.store.rollout_queries import RolloutSummary, RolloutView, Wanted
from hostler.control.store.webhooks import Owed

T = TypeVar("T")
THREADS = 2


class Reader:
    """Each method sees a commit as soon as `Engine.execute` has returned for it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hostler-reader")
        self.agents = AgentReader(self._ask, clock)

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown)
        for db in self._opened:
            db.close()

    async def _ask(self, query: Callable[..., T], *parameters: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, query, parameters)

    def _run(self, query: Callable[..., T], parameters: tuple[Any, ...]) -> T:
        """One read transaction, so that an operation and its tasks are of the same moment."""
        try:
            db = self._connection()
            db.execute("BEGIN")
            try:
                return query(db, *parameters)
            finally:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("COMMIT")
        except sqlite3.Error as err:
            raise store_error(err) from err

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = open_reader(self._path)
            self._opened.append(db)
        return db

    async def principal(self, token_sha256: str) -> Principal | None:
        """None as well for one that is revoked or expired."""
        return await self._ask(queries.principal, token_sha256, self._clock.now_ms())

    async def principals(self, cursor: str = "", page_size: int = 100) -> Page[Principal]:
        return await self._ask(queries.principals, cursor, page_size)

    async def operation(self, project_id: str, operation_id: str) -> OperationView | None:
        return await self._ask(queries.operation, project_id, operation_id)

    async def operation_status(self, project_id: str, operation_id: str) -> str:
        """ "" when there is no such operation."""
        return await self._ask(queries.operation_status, project_id, operation_id)

    async def org_of_project(self, project_id: str) -> str:
        """The tenant that a project belongs to; "" while it owns nothing."""
        return await self._ask(queries.org_of_project, project_id)

    async def operations(
        self, project_id: str, cursor: str = "", page_size: int = 100, status: str = ""
    ) -> Page[OperationSummary]:
        return await self._ask(queries.operations, project_id, cursor, page_size, status)

    async def artifacts(self, operation_id: str, cursor: str = "", page_size: int = 100) -> Page[ArtifactView]:
        return await self._ask(artifacts.page, operation_id, cursor, page_size)

    async def artifact(self, operation_id: str, artifact_id: str) -> tuple[bytes, str]:
        """Content and SHA-256; b"" where there is no content."""
        return await self._ask(artifacts.content, operation_id, artifact_id)

    async def nodes(
        self, org_id: str | None, project_id: str | None, cursor: str = "", page_size: int = 100
    ) -> Page[NodeView]:
        """`None` leaves a column out of the question."""
        return await self._ask(queries.nodes, org_id, project_id, cursor, page_size)

    async def node(self, node_id_or_name: str) -> NodeView | None:
        return await self._ask(queries.node, node_id_or_name)

    async def node_identity(self, node_id: str) -> NodeIdentity | None:
        return await self._ask(queries.node_identity, node_id)

    async def runner_key(self, node_id: str) -> bytes:
        """SPKI DER; b"" for a node that recorded none."""
        return await self._ask(queries.runner_key, node_id)

    async def certificate(self, node_id: str, serial: str) -> str:
        return await self._ask(queries.certificate, node_id, serial)

    async def definitions(self, cursor: str = "", page_size: int = 100) -> Page[DefinitionView]:
        return await self._ask(queries.definitions, cursor, page_size)

    async def definition(self, ref: str) -> DefinitionView | None:
        return await self._ask(queries.definition, ref)

    async def policies(self, org_id: str, project_id: str) -> dict[tuple[str, str, str], PolicyRow]:
        """The overlays of the global scope, a tenant and a project; "" leaves a scope out."""
        return await self._ask(policies.along, org_id, project_id)

    async def log_lines(
        self, operation_id: str, after: int, limit: int, step_id: str = "", task: int | None = None,
        attempt: int | None = None,
    ) -> list[LogView]:  # fmt: skip
        """In order of their ids; of one step, of the task with that index, of attempts with that number."""
        return await self._ask(task_logs.lines, operation_id, after, limit, task_logs.LogFilter(step_id, task, attempt))

    async def prunable_jobs(self, before_ms: int, limit: int) -> list[str]:
        return await self._ask(job_queries.prunable, before_ms, limit)

    async def prunable_logs(self, before_ms: int, limit: int) -> task_logs.Prunable | None:
        return await self._ask(task_logs.prunable, before_ms, limit)

    async def events(self, after: int, limit: int, operation_id: str = "", project_id: str = "") -> list[EventView]:
        return await self._ask(queries.events, after, limit, operation_id, project_id)

    async def events_of_scope(
        self, after: int, limit: int, org_id: str | None, project_id: str | None, type_: str
    ) -> Stretch:
        """See `store.events.scoped`."""
        return await self._ask(events.scoped, after, limit, org_id, project_id, type_)

    async def active_webhooks(self) -> list[str]:
        return await self._ask(webhooks.active)

    async def owed(self, webhook_id: str, after: int, limit: int) -> Owed | None:
        """See `store.webhooks.owed`."""
        return await self._ask(webhooks.owed, webhook_id, after, limit)

    async def newest_event(self) -> int:
        """Its id; 0 for none."""
        return await self._ask(webhooks.newest_event)

    async def parked(self, webhook_id: str, cursor: str, page_size: int) -> Page[ParkedView]:
        return await self._ask(webhooks.parked, webhook_id, cursor, page_size)

    async def has_webhook(self, webhook_id: str, org_id: str | None, project_id: str | None) -> bool:
        return await self._ask(webhooks.in_scope, webhook_id, org_id, project_id)

    async def newest_trial(self, webhook_id: str) -> int:
        return await self._ask(webhooks.newest_trial, webhook_id)

    async def webhooks(
        self, org_id: str | None, project_id: str | None, cursor: str, page_size: int
    ) -> Page[WebhookView]:
        """`None` leaves a column out of the question."""
        return await self._ask(webhooks.page, org_id, project_id, cursor, page_size)

    async def bundle(self, org_id: str, project_id: str, sha256: str) -> BundleView | None:
        return await self._ask(bundles.one, org_id, project_id, sha256)

    async def bundles(self, org_id: str, project_id: str, cursor: str, page_size: int) -> Page[BundleView]:
        return await self._ask(bundles.page, org_id, project_id, cursor, page_size)

    async def bundle_keys(self) -> set[tuple[str, str, str]]:
        """Of all that are held."""
        return await self._ask(bundles.keys)

    async def task_caller(self, node_id: str, task_id: str, attempt_uid: str) -> TaskCaller | None:
        """See `store.endpoints.caller`."""
        return await self._ask(endpoints.caller, node_id, task_id, attempt_uid)

    async def endpoints_named(self, org_id: str, project_id: str, namespace: str, name: str) -> list[EndpointView]:
        """Live ones of a namespace, by exact name or all for ""."""
        return await self._ask(endpoints.named, org_id, project_id, namespace, name, self._clock.now_ms())

    async def endpoints(
        self, project_id: str, namespace: str, name: str, cursor: str, page_size: int
    ) -> Page[EndpointView]:
        return await self._ask(endpoints.page, project_id, namespace, name, cursor, page_size, self._clock.now_ms())

    async def endpoint(self, project_id: str, task_id: str, endpoint_id: str) -> EndpointView | None:
        """See `store.endpoints.one`."""
        return await self._ask(endpoints.one, project_id, task_id, endpoint_id, self._clock.now_ms())

    async def endpoints_over(self) -> bool:
        """Whether there is anything to sweep."""
        return await self._ask(endpoints.over, self._clock.now_ms())

    async def job_state(self, org_id: str, project_id: str, job_id: str) -> JobState | None:
        return await self._ask(endpoints.job_state, org_id, project_id, job_id)

    async def audit(self, after: int, limit: int) -> list[AuditView]:
        return await self._ask(queries.audit, after, limit)

    async def audit_page(self, cursor: str, page_size: int, action: str = "", actor: str = "") -> Page[AuditView]:
        return await self._ask(audit_log.page, cursor, page_size, action, actor)

    async def undelivered(self, node_id: str, limit: int, after: int = 0) -> list[tuple[int, bytes]]:
        """(sequence, envelope) above `after` that the node has not taken, in order."""
        return await self._ask(queries.undelivered, node_id, limit, after)

    async def envelope(self, project_id: str, operation_id: str, node: str) -> bytes:
        """What was signed last for a node's task of the operation; b"" for nothing."""
        return await self._ask(queries.envelope, project_id, operation_id, node)

    async def lifecycle_counts(self, now_ms: int) -> dict[str, int]:
        return await self._ask(lifecycle.counts, now_ms)

    async def open_tasks(self) -> dict[str, int]:
        """State → number of tasks that have not ended."""
        return await self._ask(queries.open_tasks)

    async def catalog(self) -> tuple[int, bytes, tuple[bytes, ...]] | None:
        return await self._ask(queries.catalog)

    async def meta(self, name: str) -> str:
        """A value of the meta table, "" for none."""
        return await self._ask(queries.meta, name)

    async def receipts(self, *, operation_id: str = "", node_id: str = "") -> list[NodeReceipts]:
        """The whole chain of every node that the operation ran on, of one node, or of all that have one."""
        return await self._ask(queries.receipts, operation_id, node_id)

    async def trust_of_nodes(self) -> list[NodeTrust]:
        """What each node that is not revoked has proved to hold."""
        return await self._ask(queries.trust_of_nodes)

    async def sequence(self, node_id: str) -> int:
        """The highest that was given to the node."""
        return await self._ask(queries.sequence, node_id)

    async def assigned_to(self) -> list[AssignedTask]:
        """Tasks that are signed and not ended."""
        return await self._ask(queries.assigned)

    async def allocation(self, project_id: str | None, allocation_id: str) -> AllocationView | None:
        """`None` for any project."""
        return await self._ask(allocation_queries.allocation, project_id, allocation_id)

    async def allocations(
        self, project_id: str | None, cursor: str = "", page_size: int = 100, state: str = ""
    ) -> Page[AllocationSummary]:
        """Newest first; `None` for every project."""
        return await self._ask(allocation_queries.allocations, project_id, cursor, page_size, state)

    async def allocation_events(self, allocation_id: str, after: int, limit: int) -> list[EventView]:
        return await self._ask(allocation_queries.events, allocation_id, after, limit)

    async def job(self, project_id: str, named: str) -> JobView | None:
        """By id or path."""
        return await self._ask(job_queries.job, project_id, named)

    async def jobs(
        self, project_id: str, cursor: str = "", page_size: int = 100, prefix: str = "", state: str = ""
    ) -> Page[JobView]:
        return await self._ask(job_queries.jobs, project_id, cursor, page_size, prefix, state)

    async def job_tasks(self, job_id: str, cursor: str = "", page_size: int = 100) -> Page[JobTaskView]:
        return await self._ask(job_queries.tasks, job_id, cursor, page_size)

    async def job_nodes(self, job_id: str) -> list[tuple[NodeState, str]]:
        """What the job may run on, and for each node why it does not fit; "" where it does."""
        return await self._ask(job_queries.fitting, job_id)

    async def capacity(self, cursor: str = "", page_size: int = 100) -> Page[NodeCapacity]:
        return await self._ask(job_queries.capacity, cursor, page_size)

    async def rollout(self, rollout_id: str, wanted: Wanted) -> RolloutView | None:
        return await self._ask(rollout_queries.rollout, rollout_id, wanted)

    async def rollouts(self, cursor: str = "", page_size: int = 100, state: str = "") -> Page[RolloutSummary]:
        return await self._ask(rollout_queries.rollouts, cursor, page_size, state)

    async def newest_checkpoint(self) -> StoredCheckpoint | None:
        return await self._ask(checkpoints.newest)

    async def newest_witnessed(self) -> StoredCheckpoint | None:
        return await self._ask(checkpoints.newest_witnessed)

    async def checkpoint_times(self) -> CheckpointTimes:
        return await self._ask(checkpoints.times)

    async def checkpoints(self, cursor: str, page_size: int) -> tuple[list[StoredCheckpoint], str]:
        """Oldest first, and the cursor of the next page."""
        return await self._ask(checkpoints.page, cursor, page_size)

    async def heads_as_of(self, index: int) -> list[ChainReach]:
        return await self._ask(checkpoints.heads_as_of, index)

    async def heads_moved(self, index: int) -> list[ChainReach]:
        return await self._ask(checkpoints.heads_moved, index)

    async def receipts_of_move(self, head: ChainReach) -> tuple[bytes, ...]:
        return await self._ask(checkpoints.receipts_of_move, head)

    async def chains_reached(self) -> dict[str, int]:
        """Node id → index of its last receipt."""
        return await self._ask(checkpoints.reached)

    async def receipts_from(self, node_id: str, index: int) -> list[bytes]:
        return await self._ask(checkpoints.receipts_from, node_id, index)
