"""What the kernel decides about endpoints (TE-10..TE-17)."""

from typing import Any

import msgspec
import pytest

from hostler.control.kernel.endpoint_commands import (
    EndpointLease,
    RegisterEndpoint,
    SweepEndpoints,
    UnregisterEndpoint,
)
from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.endpoints import MAX_LEASE_MS, MOST_OF_TASK, host_and_port
from hostler.control.kernel.rows import NodeRow, OperationRow, TaskRow
from support.builders import definition
from support.control import submit
from support.jobs import JobBench, spec
from support.memory_view import Bench

MINUTE = 60_000


class Running:
    """One task of a job, or of a job's descendant, as it runs on a node."""

    def __init__(self, bench: JobBench, *names: str) -> None:
        bench.worker()
        job_id = ""
        for name in names or ("train",):
            job_id = bench.submit(spec(name), parent=job_id)
        self._of(bench, job_id)

    @classmethod
    def of_operation(cls, bench: Bench) -> "Running":
        """The same of an operation that is no job."""
        bench.define(definition())
        made = cls.__new__(cls)
        made._of(bench, bench.run(submit(bench.node())).operation_id)
        return made

    def _of(self, bench: Bench, operation_id: str) -> None:
        self.bench, self.operation_id = bench, operation_id
        (self.task,) = bench.tasks(operation_id)
        node = bench.view.get(NodeRow, self.task.node_id)
        assert isinstance(node, NodeRow)
        self.node = node

    def asks(self, **changes: Any) -> RegisterEndpoint:
        said: dict[str, Any] = {
            "node_id": self.node.node_id,
            "task_id": self.task.task_id,
            "attempt_uid": self.task.attempt_uid,
            "endpoint_id": "e1",
            "name": "actor",
            "address": "10.0.0.7:30001",
            "metadata": {},
            "lease_ms": 10 * MINUTE,
            "node_address": "10.0.0.7",
            "ports": (30001,),
        }
        return RegisterEndpoint(**(said | changes))

    def registers(self, **changes: Any) -> EndpointLease:
        lease: EndpointLease = self.bench.run(self.asks(**changes))
        return lease

    def refused(self, **changes: Any) -> str:
        return self.bench.refusal(self.asks(**changes)).code

    def row(self, endpoint_id: str = "e1") -> EndpointRow:
        row = self.bench.view.get(EndpointRow, (self.task.task_id, endpoint_id))
        assert isinstance(row, EndpointRow)
        return row

    def removes(self, endpoint_id: str = "e1") -> bool:
        said = {"node_id": self.node.node_id, "task_id": self.task.task_id, "attempt_uid": self.task.attempt_uid}
        removed: bool = self.bench.run(UnregisterEndpoint(**said, endpoint_id=endpoint_id))
        return removed

    def changes(self, **changes: Any) -> None:
        task = self.bench.view.get(TaskRow, self.task.task_id)
        self.bench.view.put(msgspec.structs.replace(task, **changes))

    def told(self) -> list[str]:
        return [event.type for event in self.bench.events if event.type.startswith("endpoint.")]


@pytest.fixture
def running() -> Running:
    return Running(JobBench())


def test_TE_16_a_name_is_registered_under_the_path_of_the_root_job() -> None:
    running = Running(JobBench(), "train", "shards", "part-3")
    lease = running.registers()
    assert (lease.namespace, lease.name) == ("/ann/train", "actor")
    assert running.row().namespace == "/ann/train"
    assert running.told() == ["endpoint.registered"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (1 * MINUTE, 3 * MINUTE),
        (100 * 60 * MINUTE, 72 * 60 * MINUTE),
        (0, 72 * 60 * MINUTE),
        (10 * MINUTE, 10 * MINUTE),
        (3 * MINUTE, 3 * MINUTE),
    ],
)
def test_TE_12_a_lease_is_clamped_and_unset_is_the_longest(running: Running, asked: int, given: int) -> None:
    lease = running.registers(lease_ms=asked)
    assert lease.lease_ms == given
    assert lease.lease_deadline_ms == running.bench.now + given


def test_TE_11_the_same_id_renews_without_a_word_in_the_log(running: Running) -> None:
    running.registers()
    running.bench.now += 5 * MINUTE
    lease = running.registers()
    assert lease.lease_deadline_ms == running.bench.now + 10 * MINUTE
    assert running.row().registered_at_ms == running.bench.now - 5 * MINUTE
    assert running.told() == ["endpoint.registered"]
    running.registers(address="127.0.0.1:30001")
    assert running.told() == ["endpoint.registered"] * 2


def test_TE_11_the_pruner_marks_what_is_over_and_nothing_else(running: Running) -> None:
    running.registers()
    running.registers(endpoint_id="e2", name="other", lease_ms=20 * MINUTE)
    assert running.bench.run(SweepEndpoints()) == 0
    running.bench.now += 10 * MINUTE
    assert running.bench.run(SweepEndpoints()) == 1
    assert (running.row("e1").state, running.row("e2").state) == ("expired", "registered")
    assert running.told()[-1] == "endpoint.expired"
    assert running.bench.run(SweepEndpoints()) == 0


def test_TE_11_an_endpoint_of_an_ended_attempt_is_swept_although_its_lease_goes_on(running: Running) -> None:
    running.registers()
    running.changes(attempt_uid="att_later")
    assert running.bench.run(SweepEndpoints()) == 1


def test_TE_11_one_that_expired_while_its_task_was_cut_off_comes_back_with_the_next_renewal(running: Running) -> None:
    running.registers()
    running.bench.now += 20 * MINUTE
    running.bench.run(SweepEndpoints())
    running.registers()
    assert running.row().state == "registered"
    assert running.told() == ["endpoint.registered", "endpoint.expired", "endpoint.registered"]


def test_TE_14_a_renewal_that_comes_after_the_end_does_not_bring_the_name_back(running: Running) -> None:
    running.registers()
    assert running.removes() is True
    assert running.removes() is False
    assert running.refused() == "endpoint_removed"
    assert running.row().state == "removed"
    assert running.told() == ["endpoint.registered", "endpoint.removed"]


def test_TE_15_a_row_without_a_deadline_never_expires(running: Running) -> None:
    running.registers()
    running.bench.view.put(msgspec.structs.replace(running.row(), lease_deadline_ms=None))
    running.bench.now += 1000 * MAX_LEASE_MS
    assert running.bench.run(SweepEndpoints()) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"attempt_uid": "att_later"},
        {"state": "succeeded"},
        {"state": "queued"},
        {"node_id": "nod_other"},
    ],
)
def test_stale_attempts_are_refused(running: Running, change: dict[str, Any]) -> None:
    running.registers()
    running.changes(**change)
    assert running.refused() == "stale_attempt"


def test_a_task_of_another_node_a_revoked_node_and_an_operation_that_is_no_job_are_refused() -> None:
    bench = JobBench()
    running = Running(bench)
    assert running.refused(node_id=bench.node().node_id) == "stale_attempt"
    assert running.refused(task_id="tsk_nobody") == "stale_attempt"
    bench.view.put(msgspec.structs.replace(running.node, state="revoked"))
    assert running.refused() == "stale_attempt"
    assert Running.of_operation(Bench()).refused() == "stale_attempt"


@pytest.mark.parametrize(
    "address",
    ["10.0.0.8:30001", "example.com:30001", "169.254.169.254:30001", "[::ffff:10.0.0.8]:30001", "0.0.0.0:30001"],
)
def test_TE_10_a_task_advertises_its_own_node_and_no_other(running: Running, address: str) -> None:
    assert running.refused(address=address) == "address_not_own"


def test_TE_10_a_task_advertises_ports_that_it_holds(running: Running) -> None:
    assert running.refused(address="10.0.0.7:22") == "address_not_own"
    assert running.refused(ports=()) == "address_not_own"
    running.registers(address="127.0.0.1:30001")
    running.registers(address="[::1]:30001")


def test_TE_10_what_the_node_reported_counts_more_than_what_the_call_says(running: Running) -> None:
    node = running.bench.view.get(NodeRow, running.node.node_id)
    running.bench.view.put(msgspec.structs.replace(node, capabilities='{"node.address":"10.1.1.1"}'))
    assert running.refused() == "address_not_own"
    running.registers(address="10.1.1.1:30001")


@pytest.mark.parametrize(
    "address", ["", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "a b:1", "10.0.0.7:30001\n", "x" * 301]
)
def test_an_address_is_a_host_and_a_port(running: Running, address: str) -> None:
    assert running.refused(address=address) == "invalid_request"


def test_addresses_in_brackets_are_taken_apart() -> None:
    assert host_and_port("[fd00::7]:80") == ("fd00::7", 80)


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "a\n"},
        {"name": "x" * 129},
        {"endpoint_id": ""},
        {"endpoint_id": "../x"},
        {"metadata": {"k": "v" * 4096}},
    ],
)
def test_words_are_bounded(running: Running, change: dict[str, Any]) -> None:
    assert running.refused(**change) == "invalid_request"


def test_a_task_has_so_many_endpoints_and_no_more(running: Running) -> None:
    for number in range(MOST_OF_TASK):
        running.registers(endpoint_id=f"e{number}")
    assert running.refused(endpoint_id="more") == "endpoint_limit"
    running.registers(endpoint_id="e0")  # a renewal needs no room
    running.removes("e1")
    running.registers(endpoint_id="more")


def test_ids_of_two_tasks_never_meet() -> None:
    bench = JobBench()
    one, other = Running(bench), Running(bench, "serve")
    one.registers()
    other.registers()
    assert one.row().namespace != other.row().namespace


def test_events_of_endpoints_are_of_the_task_s_scope(running: Running) -> None:
    running.registers()
    event = running.bench.events[-1]
    operation = running.bench.view.get(OperationRow, running.operation_id)
    assert (event.org_id, event.project_id) == (operation.org_id, operation.project_id)
    assert (event.task_id, event.node_id) == (running.task.task_id, running.node.node_id)
