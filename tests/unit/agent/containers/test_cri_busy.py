"""K2, K3: a daemon that begins, or is still at a dead caller's call, is waited for, and fails no task."""

import grpc
import pytest

from hostler.agent.containers.cri_client import failure, pull_failure


@pytest.mark.parametrize(
    "details",
    [
        "server is not initialized yet",
        'failed to set starting state for container "a": container is already in starting state',
        'failed to set starting state for container "a": container is in CONTAINER_EXITED state',
        'failed to reserve container name "a": name "a" is reserved for "b"',
    ],
)
def test_K3_what_is_only_busy_is_asked_again(details: str) -> None:
    assert failure("starting a", grpc.StatusCode.UNKNOWN, details).code == "runtime_unavailable"


def test_K3_a_pull_from_a_daemon_that_begins_is_asked_again() -> None:
    err = pull_failure("r/a@sha256:0", grpc.StatusCode.UNKNOWN, "server is not initialized yet")
    assert err.code == "runtime_unavailable"


def test_a_refusal_stays_one() -> None:
    assert failure("starting a", grpc.StatusCode.UNKNOWN, "exec: no such file").code == "container_failed"
