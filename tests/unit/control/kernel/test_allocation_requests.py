"""Allocations in the kernel: who gets nodes, and what is refused before anything is stored (AL-11)."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import CreateEnrolmentToken, ExpireTasks, NodeHello
from hostler.control.kernel.rows import DefinitionRow, NodeRow
from hostler.wire.node import Hello
from support.allocations import Lending, create, release
from support.builders import definition
from support.control import ADMIN, enrolment, token


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


def test_a_node_joins_the_pool_by_its_token_and_no_other_way() -> None:
    lending = Lending(0)
    lending.run(token("t1", "gpu-9", org=POOL, project=POOL))
    made = lending.run(enrolment("t1", b"key"))
    row = lending.bench.view.get(NodeRow, made.node_id)
    assert (row.pool, row.org_id, row.reclaim, row.health) == (1, POOL, "clean", "ok")
    half: CreateEnrolmentToken = token("t2", "gpu-8", org="acme", project=POOL)
    with pytest.raises(HostlerError, match="no tenant"):
        lending.run(half)
