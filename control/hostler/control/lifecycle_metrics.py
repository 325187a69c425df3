"""The metric family of a node's life: how it joins, renews, comes back and goes (OB-08).

A family of its own, apart from that of tasks; terminals get theirs when there are terminals. Labels are
actions and error codes of ours; nothing that a node says becomes one.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hostler.base.errors import HostlerError

ENROL, RENEW, RECOVER = "enrol", "renew", "recover"
ACTIONS = (ENROL, RENEW, RECOVER)
STATES = ("active", "revoked", "connected", "held", "drifted", "quarantined", "without_certificate")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class LifecycleMetrics:
    """Every series is there from the start, at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "hostler_lifecycle_requests",
            "Enrolments, renewals and recoveries by result: ok, or the error code",
            ("action", "result"),
            registry=registry,
        )
        self._seconds = Histogram(
            "hostler_lifecycle_request_seconds", "Time to the answer", ("action",), buckets=_SECONDS, registry=registry
        )
        self._nodes = Gauge(
            "hostler_lifecycle_nodes", "Nodes by state; one may be in several", ("state",), registry=registry
        )
        for action in ACTIONS:
            self._requests.labels(action, "ok")
            self._seconds.labels(action)
        for state in STATES:
            self._nodes.labels(state)

    @contextmanager
    def timed(self, action: str) -> Iterator[None]:
        """Around the answer to one request."""
        started = time.perf_counter()
        result = "internal_error"
        try:
            yield
            result = "ok"
        except HostlerError as err:
            result = err.code
            raise
        finally:
            self._requests.labels(action, result).inc()
            self._seconds.labels(action).observe(time.perf_counter() - started)

    def nodes(self, counts: Mapping[str, int]) -> None:
        for state in STATES:
            self._nodes.labels(state).set(counts.get(state, 0))
