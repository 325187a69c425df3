"""The kernel without a store: rows in dictionaries, decisions applied by hand."""

import itertools
from typing import Any

from hostler.base.errors import HostlerError
from hostler.catalog.policy import policy_digest
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow, ReleaseRow
from hostler.control.kernel.all_commands import Command
from hostler.control.kernel.allocation_rows import AllocationRow, CordonRow, LeaseRow, LinkRow
from hostler.control.kernel.allocation_states import assignable
from hostler.control.kernel.audit_rows import CheckpointRow
from hostler.control.kernel.bundle_rows import BundleRow
from hostler.control.kernel.decide import decide
from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.model import KEYED, KEYS, Decision, Settings
from hostler.control.kernel.policy_rows import PolicyRow
from hostler.control.kernel.rows import (
    CatalogRow,
    CertificateRow,
    CursorRow,
    DefinitionRow,
    EventRow,
    NodeRow,
    OperationRow,
    Row,
    StepRow,
    TaskRow,
)
from hostler.control.kernel.webhook_rows import ParkedRow, WebhookRow
from hostler.wire.task import Policy
from support.builders import definition
from support.control import CountingIds
from support.keys import NOW
from support.memory_jobs import MemoryJobs
from support.memory_rollouts import MemoryRollouts

FINAL = ("succeeded", "failed", "canceled")


class MemoryView(MemoryJobs, MemoryRollouts):
    """Implements `kernel.model.View`."""

    def __init__(self) -> None:
        self.rows: dict[type[Row], dict[Any, Row]] = {type_: {} for type_ in KEYED}

    def put(self, row: Row) -> None:
        self.rows[type(row)][KEYS[type(row)](row)] = row

    def get(self, type_: Any, key: Any) -> Any:
        return self.rows[type_].get(key)

    def _where(self, type_: Any, **wanted: Any) -> list[Any]:
        return [
            row
            for row in self.rows[type_].values()
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]

    def nodes_of(self, org_id: str, project_id: str) -> list[NodeRow]:
        return self._where(NodeRow, org_id=org_id, project_id=project_id)

    def nodes_named(self, name: str) -> list[NodeRow]:
        return self._where(NodeRow, name=name)

    def connected_nodes(self) -> list[NodeRow]:
        return self._where(NodeRow, connection="connected")

    def certificates_of(self, node_id: str) -> list[CertificateRow]:
        return self._where(CertificateRow, node_id=node_id)

    def operation_by_key(self, org_id: str, project_id: str, idempotency_key: str) -> OperationRow | None:
        wanted = {"org_id": org_id, "project_id": project_id, "idempotency_key": idempotency_key}
        return next(iter(self._where(OperationRow, **wanted)), None)

    def tasks_of(self, operation_id: str) -> list[TaskRow]:
        return self._where(TaskRow, operation_id=operation_id, child_cluster="")

    def open_tasks_on(self, node_id: str) -> list[TaskRow]:
        return self._where(TaskRow, node_id=node_id, finished_at_ms=0, child_cluster="")

    def overdue_tasks(self, now_ms: int, limit: int) -> list[TaskRow]:
        return [task for task in self._where(TaskRow, child_cluster="") if self._overdue(task, now_ms)][:limit]

    def _overdue(self, task: TaskRow, now_ms: int) -> bool:
        cursor, node = self.get(CursorRow, task.node_id), self.get(NodeRow, task.node_id)
        if node is None or task.state not in ("queued", "assigned") or 0 < task.sequence <= cursor.accepted_sequence:
            return False
        late = self.get(OperationRow, task.operation_id).deadline_ms <= now_ms
        return late or (node.connection == "connected" and task.sequence > 0 and task.expires_at_ms <= now_ms)

    def all_nodes(self) -> list[NodeRow]:
        return self._where(NodeRow)

    def assigned_tasks(self) -> list[TaskRow]:
        return self._where(TaskRow, finished_at_ms=0, state="assigned", child_cluster="")

    def unanswered_cancels(self, now_ms: int, limit: int) -> list[TaskRow]:
        return []

    def stalled_launches(self, expires_until_ms: int, expires_after_ms: int, limit: int) -> list[TaskRow]:
        found = []
        for task in self._where(TaskRow, state="assigned", cancel_requested=0, child_cluster=""):
            cursor, node = self.get(CursorRow, task.node_id), self.get(NodeRow, task.node_id)
            running = len(self._where(TaskRow, node_id=task.node_id, state="running"))
            is_here = node.connection == "connected" and not node.hold and running < node.parallel_tasks
            taken = 1 <= task.sequence <= cursor.accepted_sequence
            if is_here and taken and expires_after_ms < task.expires_at_ms <= expires_until_ms:
                found.append(task)
        return sorted(found, key=lambda task: (task.expires_at_ms, task.task_id))[:limit]

    def steps_of(self, task_id: str, attempt_number: int) -> list[StepRow]:
        return self._where(StepRow, task_id=task_id, attempt_number=attempt_number)

    def current_catalog(self) -> CatalogRow | None:
        return max(self.rows[CatalogRow].values(), key=lambda row: (row.registered_at_ms, row.version), default=None)  # type: ignore[attr-defined]

    def policies(self) -> Any:
        return self.rows[PolicyRow]

    def webhooks(self) -> list[WebhookRow]:
        return [row for row in self._where(WebhookRow) if row.state != "deleted"]

    def bundle_bytes(self, org_id: str, project_id: str) -> int:
        rows = self._where(BundleRow, org_id=org_id, project_id=project_id, state="held")
        return sum(row.size_bytes for row in rows)

    def bundle_is_named(self, project_id: str, sha256: str) -> bool:
        jobs = self._where(OperationRow, project_id=project_id)
        return any(row.status not in FINAL and sha256 in row.inputs for row in jobs)

    def unused_bundles(self, since_ms: int, limit: int) -> list[BundleRow]:
        rows = sorted(self._where(BundleRow, state="held"), key=lambda row: row.last_used_ms)
        return [row for row in rows if row.last_used_ms < since_ms][:limit]

    def parked_of(self, webhook_id: str, limit: int) -> list[ParkedRow]:
        rows = [row for row in self._where(ParkedRow, webhook_id=webhook_id) if row.state != "taken"]
        return sorted(rows, key=lambda row: row.event_id)[:limit]

    def in_flight(self, operation_type: str, scope: str, scope_id: str) -> int:
        column = {"global": {}, "tenant": {"org_id": scope_id}, "project": {"project_id": scope_id}}[scope]
        found = self._where(OperationRow, operation_type=operation_type, **column)
        return sum(row.tasks_in_flight for row in found)

    def waiting_operations(self, operation_type: str, limit: int) -> list[OperationRow]:
        found = [row for row in self._where(OperationRow) if row.tasks_queued]
        return [row for row in found if operation_type in ("", row.operation_type)][:limit]

    def pool_nodes(self) -> list[NodeRow]:
        return self._where(NodeRow, pool=1)

    def free_nodes(self) -> int:
        return sum(assignable(node) for node in self._where(NodeRow, pool=1))

    def allocation_by_external(self, org_id: str, project_id: str, external_id: str) -> Any:
        wanted = {"org_id": org_id, "project_id": project_id, "external_id": external_id}
        return next(iter(self._where(AllocationRow, **wanted)), None)

    def waiting_allocations(self) -> list[AllocationRow]:
        return self._where(AllocationRow, state="requested")

    def leases_of(self, allocation_id: str) -> list[LeaseRow]:
        return self._where(LeaseRow, allocation_id=allocation_id)

    def overdue_links(self, now_ms: int, limit: int) -> list[LinkRow]:
        rows: list[Any] = [row for row in self._where(LinkRow) if row.state in ("waiting", "running")]
        return [row for row in rows if row.deadline_ms <= now_ms][:limit]

    def open_operations_of(self, allocation_id: str) -> list[OperationRow]:
        rows = self._where(OperationRow, linked_allocation_id=allocation_id)
        return [row for row in rows if row.status not in FINAL]

    def cordons_of(self, node_id: str) -> list[CordonRow]:
        return self._where(CordonRow, node_id=node_id)

    def all_releases(self) -> list[ReleaseRow]:
        return self._where(ReleaseRow)

    def releases_of(self, version: str) -> list[ReleaseRow]:
        return self._where(ReleaseRow, version=version)

    def agents_in(self, channel: str) -> list[NodeAgentRow]:
        return self._where(NodeAgentRow, channel=channel)

    def due_agent_runs(self, now_ms: int, limit: int) -> list[AgentRunRow]:
        rows = [row for row in self._where(AgentRunRow, finished_at_ms=0) if row.deadline_ms <= now_ms]
        return sorted(rows, key=lambda row: row.deadline_ms)[:limit]

    def endpoints_of_task(self, task_id: str) -> list[EndpointRow]:
        return self._where(EndpointRow, task_id=task_id)

    def endpoints_over(self, now_ms: int, limit: int) -> list[EndpointRow]:
        return [row for row in self._where(EndpointRow, state="registered") if self._over(row, now_ms)][:limit]

    def _over(self, row: EndpointRow, now_ms: int) -> bool:
        task = self.get(TaskRow, row.task_id)
        gone = task is None or task.finished_at_ms or task.attempt_uid != row.attempt_uid
        return bool(gone) or (row.lease_deadline_ms is not None and row.lease_deadline_ms <= now_ms)

    def latest_checkpoint(self) -> CheckpointRow | None:
        rows = self.rows[CheckpointRow].values()
        return max(rows, key=lambda row: row.checkpoint_index, default=None)  # type: ignore[attr-defined]


class Bench:
    """One control plane's kernel: a view, a clock, ids, and everything that was decided."""

    def __init__(self, policy: Policy | None = None, **settings: Any) -> None:
        policy = policy or Policy()
        self.settings = Settings(policy=policy, policy_digest=policy_digest(policy), **settings)
        self.view = MemoryView()
        self.ids = CountingIds()
        self.now = NOW
        self.events: list[EventRow] = []
        self.orders: list[Any] = []
        self.artifacts: list[Any] = []
        self._names = itertools.count(1)
        self.define(definition())

    def define(self, document: Any, state: str = "active") -> None:
        self.view.put(
            DefinitionRow(
                ref=document.ref,
                operation_type=document.type,
                version=document.version,
                backend_type=document.backend_type,
                digest=document.digest(),
                document=document.canonical().decode(),
                total_steps=len(document.steps),
                state=state,
                catalog_version=1,
                registered_at_ms=NOW,
            )
        )

    def node(self, *, connected: bool = True, org: str = "acme", project: str = "train", **more: Any) -> NodeRow:
        number = next(self._names)
        row = NodeRow(
            **{
                "node_id": f"nod_{number}",
                "name": f"gpu-{number}",
                "org_id": org,
                "project_id": project,
                "public_key": b"key",
                "thumbprint": "f" * 64,
                "labels": "{}",
                "enrolled_at_ms": NOW,
                "connection": "connected" if connected else "lost",
                "session_id": "s1",
                **more,
            }
        )
        self.view.put(row)
        self.view.put(CursorRow(node_id=row.node_id))
        return row

    def decide(self, command: Command) -> Decision:
        """Decides and applies."""
        decision = decide(self.view, command, self.now, self.ids, self.settings)
        for group in (decision.inserts, decision.updates):
            for rows in group.values():
                for row in rows:
                    self.view.put(row)
        self.events += decision.events
        self.orders += decision.orders
        self.artifacts += decision.artifacts
        return decision

    def run(self, command: Command) -> Any:
        """The answer, or the refusal raised."""
        decision = self.decide(command)
        if decision.refusal is not None:
            raise decision.refusal
        return decision.result

    def refusal(self, command: Command) -> HostlerError:
        decision = self.decide(command)
        assert decision.refusal is not None
        return decision.refusal

    def operation(self, operation_id: str) -> OperationRow:
        row = self.view.get(OperationRow, operation_id)
        assert isinstance(row, OperationRow)
        return row

    def tasks(self, operation_id: str) -> list[TaskRow]:
        return self.view.tasks_of(operation_id)
