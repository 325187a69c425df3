"""A pool of nodes and the four profiles of an allocation, for the kernel alone: `Lending` plays the nodes."""

import itertools
from typing import Any

from hostler.catalog.definition import Definition
from hostler.control.kernel.allocation_commands import (
    CreateAllocation,
    ForceReleaseAllocation,
    ReleaseAllocation,
    RetryAllocation,
)
from hostler.control.kernel.allocation_rows import AllocationRow, LeaseRow, LinkRow
from hostler.control.kernel.allocation_settings import AllocationSettings
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import FoldReports, SubmitOperation, TargetSelector
from hostler.control.kernel.rows import NodeRow, OperationRow, TaskRow
from hostler.wire.report import Report, TaskReport, TaskStatus
from support.builders import definition, render_step
from support.control import ADMIN, USER, submit
from support.memory_view import Bench

LINKS = ("provision", "deprovision", "identity_revoke", "reclaim_verify")
PROFILES = (
    ("allocation.runtime.provision", "v1"),
    ("allocation.runtime.provision", "v2"),
    ("allocation.runtime.deprovision", "v1"),
    ("allocation.identity.revoke", "v1"),
    ("node.reclaim.verify", "v1"),
    ("node.reclaim.probe", "v1"),
    ("node.baseline.take", "v1"),
    ("node.task.probe", "v1"),
)
USERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"users": {"type": "array", "items": {"type": "string"}}, "allocation_id": {"type": "string"}},
}
ANY: dict[str, Any] = {"type": "object"}
NONE: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}


def profiles(**more: Any) -> list[Definition]:
    """Tiny definitions under the names that allocations ask for."""
    made = []
    for type_, version in PROFILES:
        inputs = {"node.reclaim.verify": NONE, "node.task.probe": ANY}.get(type_, USERS)
        made.append(definition(render_step("work"), type_=type_, version=version, inputs=inputs, **more))
    return made


def create(**changes: Any) -> CreateAllocation:
    values: dict[str, Any] = {
        "actor": USER,
        "org_id": "acme",
        "project_id": "train",
        "node_count": 1,
        "correlation_id": "cor_a",
    }
    return CreateAllocation(**(values | changes))


def release(allocation_id: str, **more: Any) -> ReleaseAllocation:
    return ReleaseAllocation(**({"actor": USER, "project_id": "train", "allocation_id": allocation_id} | more))


def retry(allocation_id: str) -> RetryAllocation:
    return RetryAllocation(actor=USER, project_id="train", allocation_id=allocation_id)


def force(allocation_id: str) -> ForceReleaseAllocation:
    return ForceReleaseAllocation(actor=ADMIN, allocation_id=allocation_id, reason="stuck")


def on(allocation_id: str, **more: Any) -> SubmitOperation:
    """The tenant's own operation on its allocation."""
    return submit(target_selector=TargetSelector(allocation=allocation_id), **more)


class Lending:
    """A control plane's kernel with a pool."""

    def __init__(self, nodes: int = 2, **limits: Any) -> None:
        self.bench = Bench(allocations=AllocationSettings(**limits))
        for document in profiles():
            self.bench.define(document)
        self.nodes = [self.pool_node() for _ in range(nodes)]
        self._outbox = itertools.count(1)

    def pool_node(self, **more: Any) -> NodeRow:
        return self.bench.node(org=POOL, project=POOL, pool=1, **({"baseline_of": "enrolled"} | more))

    def run(self, command: Any) -> Any:
        return self.bench.run(command)

    def create(self, **changes: Any) -> str:
        allocation_id: str = self.run(create(**changes)).allocation_id
        return allocation_id

    def active(self, **changes: Any) -> str:
        """An allocation whose nodes are provisioned."""
        allocation_id = self.create(**changes)
        for lease in self.leases(allocation_id):
            self.end(allocation_id, lease.node_id)
        assert self.state(allocation_id) == "active"
        return allocation_id

    def allocation(self, allocation_id: str) -> AllocationRow:
        row: AllocationRow = self.bench.view.get(AllocationRow, allocation_id)
        return row

    def state(self, allocation_id: str) -> str:
        return self.allocation(allocation_id).state

    def leases(self, allocation_id: str) -> list[LeaseRow]:
        return self.bench.view.leases_of(allocation_id)

    def lease(self, allocation_id: str, node_id: str) -> LeaseRow:
        row: LeaseRow = self.bench.view.get(LeaseRow, (allocation_id, node_id))
        return row

    def link(self, allocation_id: str, node_id: str, link: str = "") -> LinkRow:
        """The newest link, or the one named; None if it never began."""
        link = link or self.lease(allocation_id, node_id).link
        row: LinkRow = self.bench.view.get(LinkRow, (allocation_id, node_id, link))
        return row

    def node(self, node_id: str) -> NodeRow:
        row: NodeRow = self.bench.view.get(NodeRow, node_id)
        return row

    def operations(self, allocation_id: str = "") -> list[OperationRow]:
        rows: list[Any] = list(self.bench.view.rows[OperationRow].values())
        return [row for row in rows if not allocation_id or row.linked_allocation_id == allocation_id]

    def tell(self, task: TaskRow, status: TaskStatus = TaskStatus.SUCCEEDED, code: str = "exit_status") -> None:
        """The node's word about a task."""
        body = TaskReport(
            task_id=task.task_id,
            attempt_uid=task.attempt_uid,
            status=status,
            error_code="" if status == TaskStatus.SUCCEEDED else code,
        )
        self.run(FoldReports(node_id=task.node_id, reports=(Report(next(self._outbox), body),)))

    def end(self, allocation_id: str, node_id: str, status: TaskStatus = TaskStatus.SUCCEEDED) -> None:
        """The present link's operation ends so."""
        (task,) = self.bench.tasks(self.link(allocation_id, node_id).operation_id)
        self.tell(task, status)

    def fail(self, allocation_id: str, node_id: str) -> None:
        self.end(allocation_id, node_id, TaskStatus.FAILED)

    def clean(self, allocation_id: str, node_id: str) -> None:
        """What is left of a release chain succeeds."""
        while self.lease(allocation_id, node_id).state == "releasing":
            self.end(allocation_id, node_id)

    def events(self, type_: str = "") -> list[Any]:
        return [event for event in self.bench.events if not type_ or event.type == type_]

    def audit(self, action: str) -> list[Any]:
        return [event for event in self.bench.events if event.action == action]
