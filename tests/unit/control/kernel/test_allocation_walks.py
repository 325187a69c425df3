"""Whatever happens to allocations in whatever order, these hold (AL-03..07, AL-11, OD-15, X23)."""

import itertools
import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.control.kernel.allocation_commands import (
    ClearNode,
    CloseBreaker,
    CordonNode,
    ForceReleaseAllocation,
    ProbeNode,
    QuarantineNode,
    ReleaseAllocation,
    RetryAllocation,
)
from hostler.control.kernel.allocation_rows import AllocationRow, LeaseRow, LinkRow
from hostler.control.kernel.allocation_states import LEASE_ENDED, NEXT, POOL, assignable, choose
from hostler.control.kernel.commands import (
    CancelOperation,
    ExpireTasks,
    NodeGone,
    NodeHello,
    RetryOperation,
    RevokeNode,
    TargetSelector,
)
from hostler.control.kernel.node_commands import RecoverNode
from hostler.control.kernel.rows import CursorRow, NodeRow, TaskRow
from hostler.wire.node import Hello
from hostler.wire.report import TaskStatus
from support.allocations import Lending, create
from support.control import ADMIN, USER, submit

THINGS = (
    "create", "release", "force", "retry", "ok", "ok", "ok", "ok", "fail", "running", "cancel_op", "retry_op", "work",
    "wait", "gone", "hello", "cordon", "uncordon", "quarantine", "clear", "breaker", "revoke", "sick", "recover",
    "probe",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(THINGS), st.integers(0, 5)), max_size=60)
ENDS = {"ok": TaskStatus.SUCCEEDED, "fail": TaskStatus.FAILED, "running": TaskStatus.RUNNING}


class Walk:
    """Four nodes of the pool, to which things happen."""

    def __init__(self) -> None:
        self.lending = Lending(4, deprovision_ms=100_000, verify_ms=100_000, revoke_ms=100_000, provision_ms=100_000)
        self.bench = self.lending.bench
        self.history: dict[str, list[str]] = {}
        self.succeeded: set[tuple[str, str, str]] = set()

    def rows(self, type_: Any) -> list[Any]:
        return list(self.bench.view.rows[type_].values())

    def act(self, what: str, number: int) -> None:
        if what in ENDS:
            self._tell(ENDS[what], number)
        else:
            command = getattr(self, f"_{what}")(number)
            if command is not None:
                self.bench.decide(command)  # a refusal is fine
        self.check()

    def _tell(self, status: TaskStatus, number: int) -> None:
        tasks = [task for task in self.rows(TaskRow) if task.sequence and not task.finished_at_ms]
        if tasks:
            self.lending.tell(tasks[number % len(tasks)], status)

    def _allocation(self, number: int) -> str:
        rows = self.rows(AllocationRow)
        return rows[number % len(rows)].allocation_id if rows else "alc_none"

    def _node(self, number: int) -> NodeRow:
        return self.lending.node(self.lending.nodes[number % 4].node_id)

    def _create(self, number: int) -> Any:
        return create(node_count=1 + number % 3)

    def _release(self, number: int) -> Any:
        return ReleaseAllocation(actor=USER, project_id="train", allocation_id=self._allocation(number))

    def _force(self, number: int) -> Any:
        return ForceReleaseAllocation(actor=ADMIN, allocation_id=self._allocation(number))

    def _retry(self, number: int) -> Any:
        return RetryAllocation(actor=USER, project_id="train", allocation_id=self._allocation(number))

    def _work(self, number: int) -> Any:
        return submit(target_selector=TargetSelector(allocation=self._allocation(number)))

    def _an_operation(self, type_: Any, number: int) -> Any:
        rows = self.lending.operations()
        return rows and type_(actor=ADMIN, project_id="train", operation_id=rows[number % len(rows)].operation_id)

    def _cancel_op(self, number: int) -> Any:
        return self._an_operation(CancelOperation, number) or None

    def _retry_op(self, number: int) -> Any:
        return self._an_operation(RetryOperation, number) or None

    def _recover(self, number: int) -> Any:
        return RecoverNode(actor=ADMIN, node_id=self._node(number).node_id, reason="r", correlation_id="c")

    def _probe(self, number: int) -> Any:
        return ProbeNode(actor=ADMIN, node_id=self._node(number).node_id, correlation_id="c")

    def _wait(self, number: int) -> Any:
        self.bench.now += 40_000 * number
        return ExpireTasks()

    def _gone(self, number: int) -> Any:
        return NodeGone(node_id=self._node(number).node_id, session_id=self._node(number).session_id)

    def _hello(self, number: int, **more: Any) -> Any:
        node = self._node(number)
        high = self.bench.view.get(CursorRow, node.node_id).accepted_sequence
        said = Hello(agent_version="1", high_sequence=high, **more)
        return NodeHello(node_id=node.node_id, session_id="s2", hello=said)

    def _sick(self, number: int) -> Any:
        return self._hello(number, storage="storage_unhealthy")

    def _cordon(self, number: int) -> Any:
        kind = "draining" if number % 2 else "cordoned"
        return CordonNode(actor=ADMIN, node_id=self._node(number).node_id, owner=f"p{number % 2}", kind=kind)

    def _uncordon(self, number: int) -> Any:
        return CordonNode(actor=ADMIN, node_id=self._node(number).node_id, owner=f"p{number % 2}", kind="")

    def _quarantine(self, number: int) -> Any:
        return QuarantineNode(actor=ADMIN, node_id=self._node(number).node_id, reason="looks odd")

    def _clear(self, number: int) -> Any:
        return ClearNode(actor=ADMIN, node_id=self._node(number).node_id, reason="looked at")

    def _breaker(self, number: int) -> Any:
        return CloseBreaker(actor=ADMIN, reason="mended")

    def _revoke(self, number: int) -> Any:
        return RevokeNode(actor=ADMIN, node_id=self._node(3).node_id) if number == 5 else None

    def check(self) -> None:
        open_leases = [lease for lease in self.rows(LeaseRow) if lease.state not in LEASE_ENDED]
        held = [lease.node_id for lease in open_leases]
        assert len(set(held)) == len(held), "one hand at a time"
        by_node = {lease.node_id: lease for lease in open_leases}
        for node in (self.lending.node(each.node_id) for each in self.lending.nodes):
            self._check_node(node, by_node.get(node.node_id))
        for allocation in self.rows(AllocationRow):
            self._check_allocation(allocation)
        self._check_chains()

    def _check_node(self, node: NodeRow, lease: LeaseRow | None) -> None:
        if node.state != "active":
            return
        assert (node.reclaim in ("leased", "dirty")) == (lease is not None) == (node.org_id != POOL)
        if assignable(node):
            assert lease is None
            assert (node.reclaim, node.health, node.scheduling) == ("clean", "ok", "schedulable")

    def _check_allocation(self, allocation: AllocationRow) -> None:
        leases = [lease for lease in self.rows(LeaseRow) if lease.allocation_id == allocation.allocation_id]
        states = {lease.state for lease in leases}
        past = self.history.setdefault(allocation.allocation_id, [])
        if not past or past[-1] != allocation.state:
            assert "released" not in past, "released is final"
            past.append(allocation.state)
        if allocation.state == "released":
            assert states <= LEASE_ENDED
        if allocation.state == "active":
            assert states <= {"active", "abandoned"}
        if allocation.state == "releasing":
            assert states <= LEASE_ENDED | {"releasing"}
        over = allocation.state == "released" or (allocation.state == "failed" and states <= LEASE_ENDED)
        assert over == bool(allocation.finished_at_ms)

    def _check_chains(self) -> None:
        """A link has a row only where the one before it has succeeded; and ends of a chain are known to somebody."""
        links = {(row.allocation_id, row.node_id, row.link): row for row in self.rows(LinkRow)}
        for before, after in NEXT.items():
            for (allocation_id, node_id, link), row in links.items():
                if link == after and row.state in ("running", "succeeded"):
                    assert links[allocation_id, node_id, before].state == "succeeded"
        for lease in self.rows(LeaseRow):
            if lease.state == "clean":
                assert links[lease.allocation_id, lease.node_id, "reclaim_verify"].state == "succeeded"
            if lease.state in ("quarantined", "held"):
                assert self.lending.node(lease.node_id).health in ("quarantined", "cleaning")
                assert links[lease.allocation_id, lease.node_id, lease.link].state == "failed"


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_AL_03_AL_11_no_node_is_ever_both_unreclaimed_and_assignable(steps) -> None:
    walk = Walk()
    for what, number in steps:
        walk.act(what, number)


@settings(max_examples=100, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_OD_15_every_allocation_can_be_brought_to_its_end(steps, rng: random.Random) -> None:
    walk = Walk()
    for what, number in steps:
        walk.act(what, number)
    walk.bench.decide(CloseBreaker(actor=ADMIN, reason="mended"))
    for _ in range(40):
        for number in range(4):
            if walk._node(number).state == "active":
                walk.act("hello", number)
        for allocation in walk.rows(AllocationRow):
            walk.bench.decide(ForceReleaseAllocation(actor=ADMIN, allocation_id=allocation.allocation_id))
            walk.check()
        for _ in range(4):
            walk.act("ok", rng.randint(0, 5))
    assert {row.state for row in walk.rows(AllocationRow)} <= {"released", "failed"}
    assert all(row.finished_at_ms for row in walk.rows(AllocationRow))
    for node in (walk._node(number) for number in range(4)):
        assert node.state == "revoked" or (node.org_id, node.reclaim) == (POOL, "clean")


def test_AL_07_a_quarantined_node_is_in_none_of_a_thousand_random_schedules() -> None:
    lending = Lending(8)
    bad = lending.active(nodes=(lending.nodes[3].name,), actor=ADMIN)
    lending.run(ReleaseAllocation(actor=USER, project_id="train", allocation_id=bad))
    for _ in range(2):
        lending.end(bad, lending.nodes[3].node_id)
    lending.fail(bad, lending.nodes[3].node_id)
    rng, seen = random.Random(7), set()
    for _ in range(1000):
        pool = [lending.node(node.node_id) for node in lending.nodes]
        pool = [msgspec.structs.replace(node, reclaimed_at_ms=rng.randint(0, 99)) for node in pool]
        rng.shuffle(pool)
        chosen = choose(pool, rng.randint(1, 7), {})
        assert chosen is not None
        seen |= {node.node_id for node in chosen}
    assert seen == {node.node_id for node in lending.nodes} - {lending.nodes[3].node_id}


AXES = {
    "state": ("active", "revoked"),
    "connection": ("connected", "never", "lost"),
    "health": ("ok", "degraded", "cleaning", "quarantined"),
    "scheduling": ("schedulable", "cordoned", "draining"),
    "reclaim": ("clean", "leased", "dirty"),
    "allocation_id": ("", "alc_1"),
    "hold": ("", "identity_cloned"),
    "org_id": (POOL, "acme"),
}


def test_OD_15_a_node_is_given_only_when_every_axis_says_so() -> None:
    node = Lending(1).nodes[0]
    free = tuple(values[0] for values in AXES.values())
    for axes in itertools.product(*AXES.values()):
        changed = msgspec.structs.replace(node, **dict(zip(AXES, axes, strict=True)))
        assert assignable(changed) == (axes == free)
