"""Allocations in the kernel: the order of links, retries, force, and nodes that go (AL-06, AL-09, API-22)."""

import msgspec
import pytest

from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import CancelOperation, RetryOperation, RevokeNode
from support.allocations import Lending, force, on, release, retry
from support.control import ADMIN, USER, submit

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
