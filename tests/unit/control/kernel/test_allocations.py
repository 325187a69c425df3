"""Allocations: AL-01..06, AL-08..10, API-22, OD-17, EV-11 (the walk over random orders is test_allocation_walks)."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.allocation_commands import (
    ForceReleaseAllocation,
    ProbeNode,
    ReleaseAllocation,
    RetryAllocation,
)
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import (
    CancelOperation,
    CreateEnrolmentToken,
    ExpireTasks,
    NodeHello,
    RetryOperation,
    RevokeNode,
    TargetSelector,
)
from hostler.control.kernel.rows import DefinitionRow, NodeRow
from hostler.wire.node import Hello
from hostler.wire.report import TaskStatus
from support.allocations import Lending, create
from support.builders import definition
from support.control import ADMIN, USER, enrolment, submit, token

FOREIGN = msgspec.structs.replace(USER, name="eve", org_id="evil", project_id="train")


def release(allocation_id: str, **more) -> ReleaseAllocation:
    return ReleaseAllocation(**({"actor": USER, "project_id": "train", "allocation_id": allocation_id} | more))


def retry(allocation_id: str) -> RetryAllocation:
    return RetryAllocation(actor=USER, project_id="train", allocation_id=allocation_id)


def force(allocation_id: str) -> ForceReleaseAllocation:
    return ForceReleaseAllocation(actor=ADMIN, allocation_id=allocation_id, reason="stuck")


def on(allocation_id: str, **more):
    """The tenant's own operation on its allocation."""
    return submit(target_selector=TargetSelector(allocation=allocation_id), **more)


# -- the way through ------------------------------------------------------------------------------


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


# -- who gets nodes ---------------------------------------------------------------------------------


def test_AL_11_a_freed_node_goes_to_who_waits_in_the_same_decision() -> None:
    lending = Lending(1)
    first = lending.active()
    (lease,) = lending.leases(first)
    second = lending.create()
    assert lending.state(second) == "requested"
    lending.run(release(first))
    lending.clean(first, lease.node_id)
    assert (lending.state(first), lending.state(second)) == ("released", "provisioning")
    assert lending.node(lease.node_id).allocation_id == second


def test_a_node_that_comes_back_serves_who_waits() -> None:
    lending = Lending(0)
    node = lending.pool_node(connected=False)
    allocation_id = lending.create()
    lending.run(NodeHello(node_id=node.node_id, session_id="s9", hello=Hello(agent_version="1")))
    assert lending.state(allocation_id) == "provisioning"


def test_a_storm_of_nodes_looks_at_the_pool_only_when_it_may_be_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    lending = Lending(0)
    lending.create(node_count=3)
    lending.create(labels={"gpu": "h200"})
    looks: list[int] = []
    pool_nodes = lending.bench.view.pool_nodes
    monkeypatch.setattr(lending.bench.view, "pool_nodes", lambda: [looks.append(1), *pool_nodes()][1:])
    for number in range(3):
        node = lending.pool_node(connected=False)
        lending.run(NodeHello(node_id=node.node_id, session_id="s9", hello=Hello(agent_version="1")))
        assert len(looks) == (number == 2)
    assert sorted(row.state for row in lending.bench.view.rows[AllocationRow].values()) == ["provisioning", "requested"]


def test_an_allocation_that_waits_too_long_fails() -> None:
    lending = Lending(0, wait_ms=1000)
    allocation_id = lending.create()
    lending.bench.now += 1000
    lending.run(ExpireTasks())
    row = lending.allocation(allocation_id)
    assert (row.state, row.error_code, bool(row.finished_at_ms)) == ("failed", "no_capacity", True)


def test_labels_choose_and_only_an_administrator_names_nodes() -> None:
    lending = Lending(1)
    wanted = lending.pool_node(labels='{"gpu":"h100"}')
    allocation_id = lending.create(labels={"gpu": "h100"})
    assert [lease.node_id for lease in lending.leases(allocation_id)] == [wanted.node_id]
    named = create(nodes=(lending.nodes[0].name,))
    assert lending.bench.refusal(named).code == "scope_denied"
    assert lending.run(msgspec.structs.replace(named, actor=ADMIN)).state == "provisioning"


def test_the_same_external_id_is_the_same_allocation() -> None:
    lending = Lending(2)
    first = lending.run(create(external_id="order-7"))
    again = lending.run(create(external_id="order-7"))
    assert (first.created, again.created, again.allocation_id) == (True, False, first.allocation_id)
    assert lending.bench.refusal(create(external_id="order-7", node_count=2)).code == "idempotency_mismatch"
    assert lending.run(create(external_id="order-7", project_id="other")).created, "each project has its own"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"node_count": 0}, "invalid_request"),
        ({"inputs": {"nobody": 1}}, "input_schema"),
        ({"inputs": {"users": 7}}, "input_schema"),
        ({"profile": "demo.write@v1"}, "unknown_definition"),
        ({"external_id": "x" * 201}, "invalid_request"),
        ({"org_id": POOL, "project_id": POOL}, "invalid_request"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_is_stored(changes, code) -> None:
    lending = Lending()
    assert lending.bench.refusal(create(**changes)).code == code
    assert lending.operations() == []
    assert [event.type for event in lending.events()] == ["allocation.create_refused"]


def test_an_allocation_needs_its_profiles_published() -> None:
    lending = Lending(deprovision_profile="allocation.runtime.deprovision@v7")
    assert lending.bench.refusal(create()).code == "unknown_definition"


def test_links_of_the_release_have_inputs_of_their_own() -> None:
    lending = Lending(1)
    schema = {"type": "object", "additionalProperties": False, "properties": {"devices": {"type": "integer"}}}
    lending.bench.define(definition(type_="node.reclaim.verify", inputs=schema))
    assert lending.bench.refusal(create(inputs={"devices": "all"})).code == "input_schema"
    allocation_id = lending.active(inputs={"users": [], "devices": 2})
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    lending.clean(allocation_id, lease.node_id)
    given = {row.operation_type: msgspec.json.decode(row.inputs) for row in lending.operations(allocation_id)}
    assert given["node.reclaim.verify"] == {"devices": 2}
    assert "devices" not in given["allocation.runtime.deprovision"]


def test_the_default_profile_is_the_first_that_is_registered() -> None:
    lending = Lending(1)
    del lending.bench.view.rows[DefinitionRow]["allocation.runtime.provision@v1"]
    assert lending.operations(lending.create())[0].version == "v2"


def test_the_second_provision_profile_may_be_named() -> None:
    lending = Lending(1)
    allocation_id = lending.create(profile="allocation.runtime.provision@v2")
    assert lending.operations(allocation_id)[0].version == "v2"


# -- the tenant's work ------------------------------------------------------------------------------


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


# -- order, retries, force --------------------------------------------------------------------------


def test_AL_06_a_link_cannot_be_asked_for_directly() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    for type_ in ("allocation.identity.revoke", "node.reclaim.verify", "allocation.runtime.deprovision"):
        refusal = lending.bench.refusal(on(allocation_id, operation_type=type_))
        assert (refusal.code, refusal.http_status) == ("chain_order", 409)
    lending.run(release(allocation_id))
    for type_ in ("allocation.identity.revoke", "node.reclaim.verify"):
        assert lending.bench.refusal(on(allocation_id, operation_type=type_)).http_status == 409
        by_name = submit(lending.node(lease.node_id), operation_type=type_)
        assert lending.bench.refusal(by_name).http_status == 409


def test_AL_06_a_links_operation_is_neither_cancelled_nor_retried_by_hand() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    operation_id = lending.link(allocation_id, lease.node_id).operation_id
    for actor in (USER, ADMIN):
        asked = {"actor": actor, "project_id": "train", "operation_id": operation_id}
        assert lending.bench.refusal(CancelOperation(**asked)).code == "chain_order"
        assert lending.bench.refusal(RetryOperation(**asked)).code == "chain_order"


@pytest.mark.parametrize("by_force", [False, True])
def test_AL_09_a_retry_is_a_retry_of_the_operation_and_the_audit_names_it(by_force: bool) -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    lending.fail(allocation_id, lease.node_id)
    failed = lending.link(allocation_id, lease.node_id).operation_id
    assert lending.run(force(allocation_id) if by_force else retry(allocation_id)) == "releasing"
    assert lending.bench.operation(failed).attempt_number == 2
    (line,) = lending.audit("allocation.force_release" if by_force else "allocation.retry")
    assert msgspec.json.decode(line.body)["operations"] == [failed]
    assert lending.audit("operation.retry") == [], "one line for one change"
    assert lending.node(lease.node_id).health == "cleaning"
    lending.clean(allocation_id, lease.node_id)
    assert lending.state(allocation_id) == "released"
    assert (lending.node(lease.node_id).health, lending.node(lease.node_id).org_id) == ("ok", POOL)


def test_AL_09_a_link_whose_profile_was_replaced_is_a_new_operation() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    lending.run(release(allocation_id))
    lending.fail(allocation_id, lease.node_id)
    failed = lending.link(allocation_id, lease.node_id).operation_id
    limits = msgspec.structs.replace(
        lending.bench.settings.allocations, deprovision_profile="allocation.runtime.provision@v2"
    )
    lending.bench.settings = msgspec.structs.replace(lending.bench.settings, allocations=limits)
    lending.run(retry(allocation_id))
    assert lending.link(allocation_id, lease.node_id).operation_id != failed
    assert msgspec.json.decode(lending.audit("allocation.retry")[0].body)["operations"] == [failed]


def test_API_22_force_release_works_from_active_and_not_twice() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    assert lending.run(force(allocation_id)) == "releasing"
    lending.clean(allocation_id, lease.node_id)
    assert lending.run(force(allocation_id)) == "released"
    assert len(lending.audit("allocation.force_release")) == 1


def test_a_release_that_cannot_be_sent_locks_the_node() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (lease,) = lending.leases(allocation_id)
    limits = msgspec.structs.replace(
        lending.bench.settings.allocations, deprovision_profile="allocation.runtime.deprovision@v9"
    )
    lending.bench.settings = msgspec.structs.replace(lending.bench.settings, allocations=limits)
    lending.run(release(allocation_id))
    assert lending.link(allocation_id, lease.node_id).error_code == "unknown_definition"
    assert lending.node(lease.node_id).health == "quarantined"
    assert lending.state(allocation_id) == "failed"


# -- nodes that go ----------------------------------------------------------------------------------


def test_a_revoked_node_ends_its_chain_and_not_the_others() -> None:
    lending = Lending(2)
    allocation_id = lending.active(node_count=2)
    gone, stays = lending.leases(allocation_id)
    lending.run(RevokeNode(actor=ADMIN, node_id=gone.node_id))
    assert lending.state(allocation_id) == "active"
    assert lending.lease(allocation_id, gone.node_id).state == "abandoned"
    lending.run(release(allocation_id))
    lending.clean(allocation_id, stays.node_id)
    assert lending.state(allocation_id) == "released"


def test_an_allocation_whose_nodes_are_all_revoked_has_failed() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    lending.run(RevokeNode(actor=ADMIN, node_id=lending.nodes[0].node_id))
    row = lending.allocation(allocation_id)
    assert (row.state, row.error_code, bool(row.finished_at_ms)) == ("failed", "revoked", True)


def test_a_node_revoked_in_mid_chain_lets_the_release_end() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    lending.run(release(allocation_id))
    lending.run(RevokeNode(actor=ADMIN, node_id=lending.nodes[0].node_id))
    assert lending.state(allocation_id) == "released"


def test_a_node_joins_the_pool_by_its_token_and_no_other_way() -> None:
    lending = Lending(0)
    lending.run(token("t1", "gpu-9", org=POOL, project=POOL))
    made = lending.run(enrolment("t1", b"key"))
    row = lending.bench.view.get(NodeRow, made.node_id)
    assert (row.pool, row.org_id, row.reclaim, row.health) == (1, POOL, "clean", "ok")
    half: CreateEnrolmentToken = token("t2", "gpu-8", org="acme", project=POOL)
    with pytest.raises(HostlerError, match="no tenant"):
        lending.run(half)


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
