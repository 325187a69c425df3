"""AL-11: a large request is not starved by small ones, and nothing is held back for what cannot be served."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.control.kernel.allocation_commands import CordonNode, ProbeNode, ReleaseAllocation
from hostler.control.kernel.allocation_queue import claimed
from hostler.control.kernel.commands import ExpireTasks, NodeGone
from support.allocations import Lending, create
from support.control import ADMIN, USER

MINUTE = 60_000
AFTER = 10  # minutes until a request claims
LONGEST = 8  # minutes that a small lease may stand


def release(allocation_id: str) -> ReleaseAllocation:
    return ReleaseAllocation(actor=USER, project_id="train", allocation_id=allocation_id)


class Stream:
    """Small requests without end, and one large one. Time passes in minutes; what nodes do takes none of it."""

    def __init__(self, nodes: int, **limits: Any) -> None:
        self.lending = Lending(nodes, reserve_after_ms=AFTER * MINUTE, **limits)
        self.ends: dict[str, int] = {}
        self.minute = 0

    def ask(self, count: int = 1, **more: Any) -> str:
        return self.lending.create(node_count=count, **more)

    def settle(self) -> None:
        """Nodes do everything that they were asked for; who got nodes keeps them for a while."""
        moved = True
        while moved:
            moved = False
            for allocation_id in list(self.ends):
                for lease in self.lending.leases(allocation_id):
                    if self.lending.link(allocation_id, lease.node_id).state == "running":
                        self.lending.end(allocation_id, lease.node_id)
                        moved = True

    def pass_minute(self, lengths: list[int], arrivals: int) -> None:
        self.minute += 1
        self.lending.bench.now += MINUTE
        for allocation_id, end in list(self.ends.items()):
            if end <= self.minute and self.lending.state(allocation_id) == "active":
                self.lending.run(release(allocation_id))
        self.settle()
        for number in range(arrivals):
            allocation_id = self.ask()
            self.ends[allocation_id] = self.minute + 1 + lengths[(self.minute + number) % len(lengths)]
        self.lending.run(ExpireTasks())
        self._start_clocks(lengths)
        self.settle()

    def _start_clocks(self, lengths: list[int]) -> None:
        """A lease that began late ends late."""
        for number, allocation_id in enumerate(self.ends):
            if self.lending.state(allocation_id) == "requested":
                self.ends[allocation_id] = self.minute + 1 + lengths[number % len(lengths)]


@settings(max_examples=10, deadline=None)
@given(
    nodes=st.integers(2, 4),
    lengths=st.lists(st.integers(0, LONGEST - 1), min_size=1, max_size=5),
    arrivals=st.integers(2, 3),
    data=st.data(),
)
def test_AL_11_a_large_request_is_served_within_a_bound(
    nodes: int, lengths: list[int], arrivals: int, data: st.DataObject
) -> None:
    """Within the wait until it claims, and the longest lease that stood then; nobody older waits before it."""
    stream = Stream(nodes)
    stream.pass_minute(lengths, nodes)
    large = stream.ask(data.draw(st.integers(2, nodes), label="asked for"))
    for _ in range(AFTER + LONGEST + 2):
        stream.pass_minute(lengths, arrivals)
        if stream.lending.state(large) != "requested":
            return
    raise AssertionError("the large request was starved")


def test_AL_11_without_claims_it_starves_which_is_why_there_are_claims() -> None:
    stream = Stream(2)
    stream.lending.bench.settings = msgspec.structs.replace(
        stream.lending.bench.settings,
        allocations=msgspec.structs.replace(stream.lending.bench.settings.allocations, reserve_after_ms=0),
    )
    lengths = [1, 2]  # they never end together
    for _ in range(4):
        stream.pass_minute(lengths, 2)
    large = stream.ask(2)
    for _ in range(60):
        stream.pass_minute(lengths, 2)
    assert stream.lending.state(large) == "requested"


def waiting(nodes: int, count: int, **more: Any) -> tuple[Lending, str]:
    """One node is leased, and a large request has waited long enough."""
    lending = Lending(nodes, reserve_after_ms=AFTER * MINUTE)
    lending.active()
    large = lending.create(node_count=count, **more)
    lending.bench.now += AFTER * MINUTE
    return lending, large


def test_AL_11_a_younger_request_gets_only_what_nobody_older_claims() -> None:
    lending = Lending(0, reserve_after_ms=AFTER * MINUTE)
    for kind in ("big", "big", "plain"):
        lending.pool_node(labels=f'{{"kind":"{kind}"}}')
    lending.active(labels={"kind": "big"})
    large = lending.create(node_count=2, labels={"kind": "big"})
    lending.bench.now += AFTER * MINUTE
    assert lending.state(large) == "requested"
    assert lending.state(lending.create(labels={"kind": "big"})) == "requested", "the free one is held back"
    assert lending.state(lending.create()) == "provisioning", "the large one has no use for the plain one"


def test_AL_11_a_claim_begins_only_after_the_wait() -> None:
    lending = Lending(3, reserve_after_ms=AFTER * MINUTE)
    lending.active()
    lending.create(node_count=3)
    lending.bench.now += AFTER * MINUTE - 1
    assert lending.state(lending.create()) == "provisioning"


@pytest.mark.parametrize("lapse", ["released", "cordoned", "lost", "too_many"])
def test_AL_11_what_a_lapsed_claim_held_is_given_out(lapse: str) -> None:
    lending, large = waiting(3, 4 if lapse == "too_many" else 3)
    small = lending.create()
    if lapse == "too_many":
        assert lending.state(small) == "provisioning", "the pool has not so many nodes: nothing is held back"
        return
    assert lending.state(small) == "requested"
    leased = next(node for node in map(lending.node, [n.node_id for n in lending.nodes]) if node.allocation_id)
    if lapse == "released":
        lending.run(release(large))
    elif lapse == "cordoned":
        lending.run(CordonNode(actor=ADMIN, node_id=leased.node_id, owner="ops", kind="cordoned"))
    else:
        lending.run(NodeGone(node_id=leased.node_id, session_id=leased.session_id))
    lending.run(ExpireTasks())
    assert lending.state(small) == "provisioning"


def test_AL_11_claims_are_served_oldest_first() -> None:
    lending, first = waiting(2, 2)
    second = lending.create(node_count=2)
    lending.bench.now += AFTER * MINUTE
    (held,) = [a for a in lending.bench.view.rows[type(lending.allocation(first))].values() if a.state == "active"]
    (lease,) = lending.leases(held.allocation_id)
    lending.run(release(held.allocation_id))
    lending.clean(held.allocation_id, lease.node_id)
    assert (lending.state(first), lending.state(second)) == ("provisioning", "requested")


def test_a_claim_is_a_function_of_the_rows() -> None:
    lending, large = waiting(3, 3)
    pool = [lending.node(node.node_id) for node in lending.nodes]
    row = lending.allocation(large)
    free = {node.node_id for node in pool if not node.allocation_id}
    assert claimed(row, pool) == free
    assert claimed(row, pool, frozenset(free)) == frozenset()
    assert claimed(msgspec.structs.replace(row, node_count=1), pool, frozenset()) < free
    assert create(node_count=3).node_count == 3


def test_AL_11_an_unverified_node_is_lent_only_where_the_operator_says_so() -> None:
    assert Lending(0).pool_node(baseline_of="").baseline_of == ""
    for allowed, state in ((True, "provisioning"), (False, "requested")):
        lending = Lending(0, lend_unverified=allowed)
        node = lending.pool_node(baseline_of="")
        asked = lending.create()
        assert lending.state(asked) == state
    operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=node.node_id, correlation_id="c"))
    lending.tell(lending.bench.tasks(operation_id)[0])
    assert lending.state(asked) == "provisioning", "its first baseline frees it at once for whoever waits"


def test_AL_11_a_node_that_has_been_through_a_whole_chain_is_verified() -> None:
    lending = Lending(0)
    node = lending.pool_node(baseline_of="")
    allocation_id = lending.active()
    lending.run(release(allocation_id))
    lending.clean(allocation_id, node.node_id)
    row = lending.node(node.node_id)
    assert (row.reclaim, row.baseline_of) == ("clean", allocation_id)
