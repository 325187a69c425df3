"""Allocations in the kernel: provisioning and release, link by link (AL, OD-15 to OD-17)."""

import msgspec
import pytest

from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import ExpireTasks
from hostler.wire.report import TaskStatus
from support.allocations import Lending, create, release, retry


def test_AL_01_AL_10_provisioning_is_operations_with_their_links() -> None:
    lending = Lending()
    allocation_id = lending.create(node_count=2, inputs={"users": ["ann"]})
    assert lending.state(allocation_id) == "provisioning"
    made = lending.operations(allocation_id)
    assert {(row.trigger_source, row.operation_type, row.version) for row in made} == {
        ("allocation_provision", "allocation.runtime.provision", "v1")
    }
    assert {row.linked_node_id for row in made} == {node.node_id for node in lending.nodes}
    assert msgspec.json.decode(made[0].inputs) == {"users": ["ann"], "allocation_id": allocation_id}
    assert {(row.org_id, row.project_id) for row in made} == {("acme", "train")}
    assert {row.idempotency_key[0] for row in made} == {"/"}, "no key that a tenant could have taken before"
    first, second = lending.leases(allocation_id)
    lending.end(allocation_id, first.node_id)
    assert lending.state(allocation_id) == "provisioning", "one node is not both"
    lending.end(allocation_id, second.node_id)
    assert lending.state(allocation_id) == "active"


def test_AL_02_AL_04_AL_05_release_is_three_operations_one_after_the_other() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    assert lending.run(release(allocation_id)) == "releasing"
    seen = []
    for link in ("deprovision", "identity_revoke", "reclaim_verify"):
        assert lending.lease(allocation_id, lease.node_id).link == link
        seen.append([row.operation_type for row in lending.operations(allocation_id)][1:])
        node = lending.node(lease.node_id)
        assert (node.reclaim, node.health, node.allocation_id) == ("dirty", "cleaning", allocation_id)
        lending.end(allocation_id, lease.node_id)
    assert [len(each) for each in seen] == [1, 2, 3], "each link has a task only once the one before has succeeded"
    assert seen[-1] == ["allocation.runtime.deprovision", "allocation.identity.revoke", "node.reclaim.verify"]
    assert {row.trigger_source for row in lending.operations(allocation_id)} == {
        "allocation_provision",
        "allocation_release",
    }
    assert lending.state(allocation_id) == "released"
    node = lending.node(lease.node_id)
    assert (node.org_id, node.project_id, node.allocation_id) == (POOL, POOL, "")
    assert (node.reclaim, node.health) == ("clean", "ok")
    told = [event.type for event in lending.events() if event.type.startswith(("allocation.", "node."))]
    assert [each for each in told if each != "allocation.link"] == [
        "allocation.requested",
        "allocation.provisioning",
        "node.leased",
        "allocation.active",
        "allocation.releasing",
        "node.reclaimed",
        "allocation.released",
    ]


@pytest.mark.parametrize("at", ["deprovision", "identity_revoke", "reclaim_verify"])
def test_AL_04_AL_05_AL_07_a_link_that_fails_ends_the_chain_there(at: str) -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    while lending.lease(allocation_id, lease.node_id).link != at:
        lending.end(allocation_id, lease.node_id)
    lending.fail(allocation_id, lease.node_id)
    following = {"deprovision": "identity_revoke", "identity_revoke": "reclaim_verify", "reclaim_verify": ""}[at]
    assert not following or lending.link(allocation_id, lease.node_id, following) is None
    chained = [row for row in lending.operations(allocation_id) if row.trigger_source == "allocation_release"]
    assert len(chained) == ["deprovision", "identity_revoke", "reclaim_verify"].index(at) + 1
    node = lending.node(lease.node_id)
    assert (node.health, node.reclaim, node.allocation_id) == ("quarantined", "dirty", allocation_id)
    assert lending.state(allocation_id) == "failed"
    assert lending.allocation(allocation_id).error_code == "exit_status"
    assert len(lending.events("quarantine.entered")) == 1
    assert lending.run(create()).state == "requested", "nobody gets it"


def test_OD_17_a_failed_deprovision_is_followed_by_an_access_revoke_of_its_own() -> None:
    lending = Lending(1)
    allocation_id = lending.active(inputs={"users": ["ann"]})
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    lending.fail(allocation_id, lease.node_id)
    (line,) = lending.audit("allocation.forced_revoke")
    forced = lending.bench.operation(lending.lease(allocation_id, lease.node_id).revoke_operation_id)
    assert (forced.operation_type, forced.trigger_source) == ("allocation.identity.revoke", "system")
    body = msgspec.json.decode(line.body)
    assert (body["operation_id"], body["link"]) == (forced.operation_id, "deprovision")
    assert msgspec.json.decode(forced.inputs)["users"] == ["ann"]
    (task,) = lending.bench.tasks(forced.operation_id)
    lending.tell(task)
    assert lending.link(allocation_id, lease.node_id).link == "deprovision", "it is no link of the chain"
    assert lending.link(allocation_id, lease.node_id, "reclaim_verify") is None


def test_OD_17_a_link_that_hangs_times_out_and_is_told_to_end() -> None:
    lending = Lending(1, deprovision_ms=60_000)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    (task,) = lending.bench.tasks(lending.link(allocation_id, lease.node_id).operation_id)
    lending.tell(task, TaskStatus.RUNNING)
    lending.bench.now += 59_999
    lending.run(ExpireTasks())
    assert lending.state(allocation_id) == "releasing"
    lending.bench.now += 1
    lending.run(ExpireTasks())
    assert lending.state(allocation_id) == "failed"
    assert lending.link(allocation_id, lease.node_id).error_code == "timeout"
    assert lending.node(lease.node_id).health == "quarantined"
    assert lending.bench.tasks(task.operation_id)[0].cancel_requested
    assert len(lending.audit("allocation.forced_revoke")) == 1
    assert lending.bench.refusal(retry(allocation_id)).code == "operation_not_final"
    lending.tell(task, TaskStatus.CANCELED)
    lending.run(retry(allocation_id))
    lending.clean(allocation_id, lease.node_id)
    assert lending.state(allocation_id) == "released"
    assert lending.node(lease.node_id).health == "ok"


def test_a_link_that_succeeds_after_its_time_is_run_once_more_not_believed() -> None:
    lending = Lending(1, deprovision_ms=60_000)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    (task,) = lending.bench.tasks(lending.link(allocation_id, lease.node_id).operation_id)
    lending.tell(task, TaskStatus.RUNNING)
    lending.bench.now += 60_000
    lending.run(ExpireTasks())
    lending.tell(task)
    assert lending.lease(allocation_id, lease.node_id).link == "deprovision"
    lending.run(retry(allocation_id))
    assert lending.link(allocation_id, lease.node_id).operation_id != task.operation_id
    lending.clean(allocation_id, lease.node_id)
    assert lending.state(allocation_id) == "released"


def test_failed_provisioning_fails_the_allocation_and_cleans_every_node() -> None:
    lending = Lending(2)
    allocation_id = lending.create(node_count=2)
    bad, good = lending.leases(allocation_id)
    lending.end(allocation_id, good.node_id)
    lending.fail(allocation_id, bad.node_id)
    assert lending.state(allocation_id) == "failed"
    for lease in (bad, good):
        assert lending.lease(allocation_id, lease.node_id).link == "deprovision"
        lending.clean(allocation_id, lease.node_id)
        assert lending.node(lease.node_id).org_id == POOL
    row = lending.allocation(allocation_id)
    assert (row.state, row.error_code, bool(row.finished_at_ms)) == ("failed", "exit_status", True)
    assert lending.bench.refusal(retry(allocation_id)).code == "allocation_state"


def test_a_provision_that_still_runs_is_ended_before_its_node_is_cleaned() -> None:
    lending = Lending(2)
    allocation_id = lending.create(node_count=2)
    bad, slow = lending.leases(allocation_id)
    (task,) = lending.bench.tasks(lending.link(allocation_id, slow.node_id).operation_id)
    lending.tell(task, TaskStatus.RUNNING)
    lending.fail(allocation_id, bad.node_id)
    assert lending.bench.tasks(task.operation_id)[0].cancel_requested
    assert lending.lease(allocation_id, slow.node_id).link == "provision"
    lending.tell(task, TaskStatus.CANCELED)
    assert lending.lease(allocation_id, slow.node_id).link == "deprovision"
    lending.clean(allocation_id, slow.node_id)
    lending.clean(allocation_id, bad.node_id)
    assert lending.allocation(allocation_id).finished_at_ms


def test_a_provision_that_hangs_locks_its_node_and_is_cleaned_once_it_has_ended() -> None:
    lending = Lending(1, provision_ms=1000)
    allocation_id = lending.create()
    (lease,) = lending.leases(allocation_id)
    (task,) = lending.bench.tasks(lending.link(allocation_id, lease.node_id).operation_id)
    lending.tell(task, TaskStatus.RUNNING)
    lending.bench.now += 1000
    lending.run(ExpireTasks())
    assert (lending.state(allocation_id), lending.node(lease.node_id).health) == ("failed", "quarantined")
    lending.tell(task, TaskStatus.CANCELED)
    assert lending.lease(allocation_id, lease.node_id).link == "deprovision"
    lending.clean(allocation_id, lease.node_id)
    assert lending.node(lease.node_id).health == "ok"


def test_release_of_what_has_no_nodes_yet_and_twice() -> None:
    lending = Lending(0)
    allocation_id = lending.create()
    assert lending.state(allocation_id) == "requested"
    assert lending.run(release(allocation_id)) == "released"
    assert lending.run(release(allocation_id)) == "released"
    assert len(lending.audit("allocation.release")) == 1


def test_release_while_provisioning_is_a_release() -> None:
    lending = Lending(1)
    allocation_id = lending.create()
    (lease,) = lending.leases(allocation_id)
    (task,) = lending.bench.tasks(lending.link(allocation_id, lease.node_id).operation_id)
    lending.tell(task, TaskStatus.RUNNING)
    assert lending.run(release(allocation_id)) == "releasing"
    lending.tell(task)  # it was quicker than the cancel
    assert lending.lease(allocation_id, lease.node_id).link == "deprovision"
    lending.clean(allocation_id, lease.node_id)
    assert lending.state(allocation_id) == "released"
