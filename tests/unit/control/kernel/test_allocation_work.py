"""Allocations in the kernel: the tenant's work reaches its own nodes, while it has them and no longer (AL, S2)."""

import msgspec

from hostler.control.kernel.allocation_commands import ProbeNode
from hostler.control.kernel.commands import NodeHello, RetryOperation, TargetSelector
from hostler.wire.node import Hello
from hostler.wire.report import TaskStatus
from support.allocations import Lending, on, release
from support.control import ADMIN, USER, submit

FOREIGN = msgspec.structs.replace(USER, name="eve", org_id="evil", project_id="train")


def test_operations_go_to_the_nodes_of_the_allocation_and_are_bound_to_it() -> None:
    lending = Lending(2)
    allocation_id = lending.active(node_count=2)
    made = lending.run(on(allocation_id))
    operation = lending.bench.operation(made.operation_id)
    assert operation.linked_allocation_id == allocation_id
    assert {task.node_id for task in lending.bench.tasks(made.operation_id)} == {n.node_id for n in lending.nodes}
    one = TargetSelector(allocation=allocation_id, nodes=(lending.nodes[0].name,))
    narrow = lending.run(submit(target_selector=one)).operation_id
    assert [task.node_id for task in lending.bench.tasks(narrow)] == [lending.nodes[0].node_id]


def test_a_leased_node_is_reached_only_through_its_allocation() -> None:
    lending = Lending(1)
    lending.active()
    own = lending.bench.node()  # of the project itself
    assert lending.bench.refusal(submit(lending.nodes[0])).code == "wrong_allocation"
    everything = TargetSelector(labels={"a": "b"})
    lending.bench.view.put(msgspec.structs.replace(own, labels='{"a":"b"}'))
    lending.bench.view.put(msgspec.structs.replace(lending.node(lending.nodes[0].node_id), labels='{"a":"b"}'))
    made = lending.run(submit(target_selector=everything)).operation_id
    assert [task.node_id for task in lending.bench.tasks(made)] == [own.node_id]


def test_S2_another_tenants_allocation_does_not_exist() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    assert lending.bench.refusal(release(allocation_id, actor=FOREIGN)).code == "not_found"
    assert lending.bench.refusal(release(allocation_id, project_id="other")).code == "not_found"
    foreign = on(allocation_id, org_id="evil", actor=FOREIGN)
    assert lending.bench.refusal(foreign).code == "not_found"
    assert lending.state(allocation_id) == "active"


def test_nothing_of_the_tenant_starts_once_release_has_begun() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    running = lending.run(on(allocation_id)).operation_id
    (task,) = lending.bench.tasks(running)
    lending.tell(task, TaskStatus.RUNNING)
    lending.bench.view.put(msgspec.structs.replace(lending.node(lease.node_id), connection="lost"))
    queued = lending.run(on(allocation_id)).operation_id
    lending.bench.view.put(msgspec.structs.replace(lending.node(lease.node_id), connection="connected"))
    lending.run(release(allocation_id))
    assert lending.bench.operation(queued).status == "canceled"
    assert lending.bench.tasks(running)[0].cancel_requested
    assert lending.bench.refusal(on(allocation_id)).code == "allocation_state"
    again = RetryOperation(actor=USER, project_id="train", operation_id=queued)
    lending.run(again)
    assert lending.bench.operation(queued).error_code == "allocation_state", "checked once more before it is sent"


def test_access_is_not_taken_apart_while_the_tenants_work_still_runs() -> None:
    lending = Lending(1, revoke_ms=5000)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    (task,) = lending.bench.tasks(lending.run(on(allocation_id)).operation_id)
    lending.tell(task, TaskStatus.RUNNING)
    lending.run(release(allocation_id))
    lending.end(allocation_id, lease.node_id)
    assert lending.link(allocation_id, lease.node_id).state == "waiting"
    lending.tell(task, TaskStatus.CANCELED)
    assert lending.link(allocation_id, lease.node_id).state == "running"
    lending.clean(allocation_id, lease.node_id)
    assert lending.state(allocation_id) == "released"


def test_a_probe_of_a_leased_node_is_bound_to_its_allocation_and_changes_nothing() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=lending.nodes[0].node_id, correlation_id="c"))
    operation = lending.bench.operation(operation_id)
    assert (operation.linked_allocation_id, operation.trigger_source) == (allocation_id, "admin")
    (task,) = lending.bench.tasks(operation_id)
    lending.tell(task, TaskStatus.FAILED)
    assert lending.state(allocation_id) == "active"
    assert lending.node(lending.nodes[0].node_id).health == "ok"
    assert len(lending.audit("node.probe")) == 1


def test_a_node_that_changed_hands_before_a_task_was_sent_gets_nothing() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    node = lending.node(lending.nodes[0].node_id)
    lending.bench.view.put(msgspec.structs.replace(node, connection="lost"))
    operation_id = lending.run(on(allocation_id)).operation_id
    lending.bench.view.put(msgspec.structs.replace(node, connection="lost", allocation_id="alc_other"))
    lending.run(NodeHello(node_id=node.node_id, session_id="s9", hello=Hello(agent_version="1")))
    assert lending.bench.operation(operation_id).error_code == "wrong_allocation"
