"""Leases of names: renewed at a third, tried again with back-off, and gone once they are closed (TE-12..TE-14)."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.sdk.endpoints import LEASE_S, Endpoint, Lease, Registry, Resolver, retry_s
from hostler.sdk.errors import ApiError, ControllerUnreachable
from hostler.sdk.info import JobInfo

HERE = Endpoint(name="actor", address="10.0.0.7:30001", endpoint_id="e1")


class Clock:
    """Stands in for waiting: `tick` lets one pause end; what was asked for is in `pauses`."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._go = threading.Semaphore(0)
        self._asked = threading.Semaphore(0)

    def wait(self, closed: threading.Event, seconds: float) -> bool:
        self.pauses.append(round(seconds, 3))
        self._asked.release()
        while not self._go.acquire(timeout=0.01):
            if closed.is_set():
                return True
        return closed.is_set()

    def tick(self) -> None:
        """Ends the present pause and waits for the next one."""
        assert self._asked.acquire(timeout=5)
        self._go.release()
        assert self._asked.acquire(timeout=5)
        self._asked.release()


class Server:
    """Endpoints of one task, as the control plane keeps them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.asked: list[int] = []
        self.lease_ms = 600_000
        self.failure: ApiError | None = None
        self.slow: threading.Event | None = None
        self.inside = threading.Event()

    def put_endpoint(self, endpoint_id: str, name: str, address: str, lease_ms: int, metadata: Any) -> dict[str, Any]:
        self.asked.append(lease_ms)
        if self.failure:
            raise self.failure
        if self.slow is not None:
            self.inside.set()
            assert self.slow.wait(5)
        self.names[endpoint_id] = address
        return {"lease_ms": self.lease_ms}

    def delete_endpoint(self, endpoint_id: str) -> bool:
        if self.failure:
            raise self.failure
        return self.names.pop(endpoint_id, None) is not None

    def endpoints(self, name: str = "", *, namespace: str = "", job: str = "") -> list[dict[str, Any]]:
        return []


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(server: Server, clock: Clock) -> Iterator[Lease]:
    made = Lease(server, HERE, LEASE_S, clock.wait, lambda: 0.0)
    yield made
    server.failure = None
    made.close()


def away() -> ControllerUnreachable:
    return ControllerUnreachable(503, "controller_unreachable", "nobody there")


def test_TE_12_TE_13_ten_minutes_are_asked_for_and_renewed_at_a_third_of_what_was_given(server, clock, lease) -> None:
    server.lease_ms = 180_000
    clock.tick()
    assert server.asked == [600_000, 600_000]
    clock.tick()
    assert clock.pauses == [200.0, 60.0, 60.0]


def test_TE_13_a_failing_renewal_is_tried_again_after_ten_seconds_up_to_a_minute(server, clock, lease) -> None:
    server.failure = away()
    for _ in range(5):
        clock.tick()
    assert clock.pauses == [200.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    server.failure = None
    clock.tick()
    assert clock.pauses[-1] == 200.0
    server.failure = away()
    clock.tick()
    assert clock.pauses[-1] == 10.0


def test_TE_13_tasks_do_not_come_back_together() -> None:
    assert [retry_s(0, jitter) for jitter in (0.0, 1.0)] == [10.0, 9.0]
    assert retry_s(10_000, 0.0) == 60.0


def test_what_is_refused_for_good_is_not_renewed_and_says_so(server, clock, lease) -> None:
    server.failure = ApiError(403, "stale_attempt", "another attempt runs")
    assert clock._asked.acquire(timeout=5)
    clock._go.release()
    lease._thread.join(timeout=5)
    assert not lease._thread.is_alive()
    assert lease.lost is not None
    assert lease.lost.code == "stale_attempt"


def test_a_first_registration_that_fails_is_the_caller_s(server: Server) -> None:
    server.failure = away()
    with pytest.raises(ControllerUnreachable):
        Lease(server, HERE, LEASE_S)


def test_TE_14_closing_waits_for_a_renewal_under_way_so_that_the_name_stays_away(server, clock, lease) -> None:
    server.slow = threading.Event()
    assert clock._asked.acquire(timeout=5)
    clock._go.release()
    assert server.inside.wait(5)  # a renewal is on its way
    closing = threading.Thread(target=lease.close)
    closing.start()
    time.sleep(0.1)
    assert closing.is_alive()
    server.slow.set()
    closing.join(timeout=5)
    assert server.names == {}
    time.sleep(0.05)
    assert server.names == {}


def test_TE_14_closing_twice_takes_away_once_and_never_fails(server, clock, lease) -> None:
    lease.close()
    server.names["e1"] = "registered by somebody else since"
    lease.close()
    assert server.names


def test_closing_while_nobody_can_be_told_leaves_the_rest_to_the_lease(server, clock, lease) -> None:
    server.failure = away()
    lease.close()
    assert not lease._thread.is_alive()


def test_a_registry_registers_ports_of_this_node_and_takes_the_place_of_an_earlier_name(server: Server) -> None:
    info = JobInfo(job_id="op_1", task_id="tsk_1", namespace="/ann/a", vm_address="fd00::7")
    registry = Registry(server, info)
    first = registry.register("actor", port=30001)
    assert first.endpoint.address == "[fd00::7]:30001"
    second = registry.register("actor", "10.0.0.7:1")
    assert list(server.names.values()) == ["10.0.0.7:1"]
    assert first.endpoint.endpoint_id != second.endpoint.endpoint_id
    assert registry.unregister("actor")
    assert not registry.unregister("actor")
    registry.register("other", port=1)
    registry.close()
    assert server.names == {}
    with pytest.raises(ValueError, match="address or a port"):
        registry.register("x")


def test_TE_17_a_resolver_takes_the_exact_name_only() -> None:
    class Generous(Server):
        """A server that answers with more than was asked for."""

        def endpoints(self, name: str = "", *, namespace: str = "", job: str = "") -> list[dict[str, Any]]:
            row = {"address": "h:1", "namespace": "/ann/a", "endpoint_id": "e", "task_id": "t", "attempt_uid": "u"}
            return [row | {"name": "ab"}, row | {"name": "a"}]

    assert [each.name for each in Resolver(Generous()).resolve("a").endpoints] == ["a"]
