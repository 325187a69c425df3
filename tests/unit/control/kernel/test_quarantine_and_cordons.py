"""AL-07, AL-08, EF-07, DM-22 and the kernel's part of R3."""

import msgspec
import pytest

from hostler.control.kernel.allocation_commands import (
    ClearNode,
    CloseBreaker,
    CordonNode,
    ProbeNode,
    QuarantineNode,
    ReleaseAllocation,
    RetryAllocation,
)
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import NodeHello, NodeStatus, RevokeNode, TargetSelector
from hostler.wire.node import Hello
from hostler.wire.report import TaskStatus
from support.allocations import Lending, create
from support.control import ADMIN, USER, submit


def cordon(node, kind: str = "cordoned", owner: str = "ops", **more) -> CordonNode:
    return CordonNode(actor=ADMIN, node_id=node.node_id, owner=owner, kind=kind, **more)


def release(allocation_id: str) -> ReleaseAllocation:
    return ReleaseAllocation(actor=USER, project_id="train", allocation_id=allocation_id)


def broken(lending: Lending, allocation_id: str, node_id: str) -> None:
    """The chain comes as far as the verification, which fails."""
    while lending.lease(allocation_id, node_id).link != "reclaim_verify":
        lending.end(allocation_id, node_id)
    lending.fail(allocation_id, node_id)


def test_AL_08_a_person_quarantines_and_clears_with_one_audit_line_each() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    for _ in range(2):
        lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="smells"))
    assert lending.run(create()).state == "requested"
    for _ in range(2):
        lending.run(ClearNode(actor=ADMIN, node_id=node.node_id, reason="aired"))
    assert [len(lending.audit(action)) for action in ("node.quarantine", "node.clear")] == [1, 1]
    assert lending.node(node.node_id).allocation_id, "who waited has it now"


def test_AL_08_a_passed_verification_clears_a_node_that_nobody_holds() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="smells"))
    for status in (TaskStatus.FAILED, TaskStatus.SUCCEEDED):
        assert lending.node(node.node_id).health == "quarantined"
        operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=node.node_id, correlation_id="c"))
        (task,) = lending.bench.tasks(operation_id)
        lending.tell(task, status)
    assert lending.node(node.node_id).health == "ok"
    assert [event.action for event in lending.events("quarantine.cleared")] == [""]


def test_AL_07_a_failed_probe_quarantines_a_free_node() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=node.node_id, correlation_id="c"))
    assert lending.bench.operation(operation_id).project_id == POOL
    (task,) = lending.bench.tasks(operation_id)
    lending.tell(task, TaskStatus.FAILED)
    assert lending.node(node.node_id).health == "quarantined"


def test_a_probe_that_was_refused_says_nothing_about_the_node() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=node.node_id, correlation_id="c"))
    (task,) = lending.bench.tasks(operation_id)
    lending.tell(task, TaskStatus.REFUSED, code="incompatible")
    assert lending.node(node.node_id).health == "ok"


def test_AL_08_a_leased_node_is_cleared_by_its_chain_alone() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    lending.run(release(allocation_id))
    broken(lending, allocation_id, node.node_id)
    assert lending.bench.refusal(ClearNode(actor=ADMIN, node_id=node.node_id, reason="trust me")).code == "node_leased"
    lending.run(RetryAllocation(actor=USER, project_id="train", allocation_id=allocation_id))
    lending.end(allocation_id, node.node_id)
    assert (lending.node(node.node_id).health, lending.node(node.node_id).org_id) == ("ok", POOL)


def test_AL_08_a_persons_quarantine_outlasts_the_chain_and_the_tenants_retry() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="hums"))
    assert lending.state(allocation_id) == "active", "whoever has it keeps it"
    lending.run(release(allocation_id))
    broken(lending, allocation_id, node.node_id)
    lending.run(RetryAllocation(actor=USER, project_id="train", allocation_id=allocation_id))
    lending.end(allocation_id, node.node_id)
    assert lending.state(allocation_id) == "released"
    row = lending.node(node.node_id)
    assert (row.health, row.reclaim, row.org_id) == ("quarantined", "clean", POOL)
    assert lending.run(create()).state == "requested"


def test_AL_08_a_persons_quarantine_of_a_leased_node_is_theirs_to_lift() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="hums"))
    lending.run(ClearNode(actor=ADMIN, node_id=node.node_id, reason="it was the fan"))
    row = lending.node(node.node_id)
    assert (row.health, row.reclaim, row.allocation_id) == ("ok", "leased", allocation_id)


def test_a_revoked_node_is_neither_quarantined_nor_cordoned() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    lending.run(RevokeNode(actor=ADMIN, node_id=node.node_id))
    for command in (
        QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="x"),
        ClearNode(actor=ADMIN, node_id=node.node_id, reason="x"),
        cordon(node),
    ):
        assert lending.bench.refusal(command).code == "revoked"


def test_a_node_that_says_it_is_unwell_is_degraded_until_it_is_well() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    said = {"node_id": node.node_id, "keyset_version": 1, "catalog_version": 1, "hold": "", "drift": ""}
    lending.run(NodeStatus(**said, storage="storage_unhealthy"))
    assert lending.node(node.node_id).health == "degraded"
    allocation_id = lending.create()
    assert lending.state(allocation_id) == "requested"
    lending.run(NodeStatus(**said, storage="ok"))
    assert lending.state(allocation_id) == "provisioning"


# -- R3 ---------------------------------------------------------------------------------------------


def a_bad_check(lending: Lending) -> list[str]:
    """Every node is leased and released, and every verification fails."""
    allocations = [lending.active() for _ in lending.nodes]
    for allocation_id in allocations:
        lending.run(release(allocation_id))
        broken(lending, allocation_id, lending.leases(allocation_id)[0].node_id)
    return allocations


def test_R3_a_check_that_would_quarantine_most_of_the_fleet_trips_the_breaker() -> None:
    lending = Lending(10)
    allocations = a_bad_check(lending)
    health = [lending.node(node.node_id).health for node in lending.nodes]
    assert (health.count("quarantined"), health.count("cleaning")) == (2, 8)
    assert len(lending.events("quarantine.breaker_opened")) == 1
    assert len(lending.events("quarantine.held")) == 8
    assert lending.run(create()).state == "requested", "held is not given out"
    held = allocations[-1]
    (lease,) = lending.leases(held)
    assert (lease.state, lending.state(held)) == ("held", "failed")
    lending.run(CloseBreaker(actor=ADMIN, reason="the check was wrong"))
    lending.run(RetryAllocation(actor=USER, project_id="train", allocation_id=held))
    lending.end(held, lease.node_id)
    assert lending.state(held) == "released"
    assert len(lending.audit("quarantine.close_breaker")) == 1


def test_R3_few_failures_or_long_ago_are_no_reason() -> None:
    lending = Lending(10, breaker_nodes=11)
    a_bad_check(lending)
    assert {lending.node(node.node_id).health for node in lending.nodes} == {"quarantined"}
    slow = Lending(10)
    for allocation_id in [slow.active() for _ in slow.nodes]:
        slow.run(release(allocation_id))
        broken(slow, allocation_id, slow.leases(allocation_id)[0].node_id)
        slow.bench.now += 3_600_000
    assert {slow.node(node.node_id).health for node in slow.nodes} == {"quarantined"}


def test_R3_a_cordon_of_somebody_elses_is_preserved() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    assert lending.run(cordon(node, owner="kubernetes", reason="upgrade")) == "cordoned"
    assert lending.run(cordon(node, "draining")) == "draining"
    assert lending.run(cordon(node, "")) == "cordoned", "ours is gone, theirs stays"
    lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="x"))
    lending.run(ClearNode(actor=ADMIN, node_id=node.node_id, reason="y"))
    assert lending.node(node.node_id).scheduling == "cordoned"
    allocation_id = lending.create()
    assert lending.state(allocation_id) == "requested"
    assert lending.run(cordon(node, "", owner="kubernetes")) == "schedulable"
    assert lending.state(allocation_id) == "provisioning"


def test_EF_07_a_cordoned_node_goes_through_a_whole_lease_and_stays_cordoned() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    lending.run(cordon(node))
    lending.run(release(allocation_id))
    lending.clean(allocation_id, node.node_id)
    assert lending.state(allocation_id) == "released"
    assert lending.node(node.node_id).scheduling == "cordoned"


def test_EF_07_a_drained_node_finishes_and_starts_nothing_new_until_it_is_let_go() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    selector = TargetSelector(allocation=allocation_id)
    running = lending.run(submit(target_selector=selector)).operation_id
    lending.tell(lending.bench.tasks(running)[0], TaskStatus.RUNNING)
    lending.run(cordon(node, "draining"))
    waiting = lending.run(submit(target_selector=selector)).operation_id
    assert lending.bench.tasks(waiting)[0].state == "queued"
    said = Hello(agent_version="1", high_sequence=lending.bench.tasks(running)[0].sequence)
    lending.run(NodeHello(node_id=node.node_id, session_id="s2", hello=said))
    assert lending.bench.tasks(waiting)[0].state == "queued", "also after it came back"
    lending.tell(lending.bench.tasks(running)[0])
    assert lending.bench.operation(running).status == "succeeded"
    lending.run(cordon(node, ""))
    assert lending.bench.tasks(waiting)[0].state == "assigned"


def test_EF_07_a_release_goes_on_while_the_node_is_drained() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    lending.run(cordon(node, "draining"))
    lending.run(release(allocation_id))
    lending.clean(allocation_id, node.node_id)
    assert lending.state(allocation_id) == "released"


@pytest.mark.parametrize("changes", [{"kind": "sleepy"}, {"owner": "Not A Name"}])
def test_a_cordon_that_makes_no_sense_is_refused(changes) -> None:
    lending = Lending(1)
    command = msgspec.structs.replace(cordon(lending.nodes[0]), **changes)
    assert lending.bench.refusal(command).code == "invalid_request"
