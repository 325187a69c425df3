"""States of a lifecycle run, and what it remembers of its way."""

import msgspec

from hostler.control.kernel.agent_rows import AgentRunRow
from hostler.control.kernel.events import json_text

WAITING, DELIVERING, TRIAL = "waiting", "delivering", "trial"
OPERATOR, VERIFYING = "awaiting_operator", "verifying"
SUCCEEDED, FAILED, ROLLED_BACK, CANCELED = "succeeded", "failed", "rolled_back", "canceled"
RUN_ENDED = frozenset({SUCCEEDED, FAILED, ROLLED_BACK, CANCELED})
RUN_STATES = RUN_ENDED | {WAITING, DELIVERING, TRIAL, OPERATOR, VERIFYING}

NODE_BUSY, NODE_AWAY, IS_DRAINING = "node_busy", "node_away", "draining"
CORDON_OWNER = "agent-lifecycle"  # whose wish keeps new work from a node while its agent changes

VERSION_REPORTED, SERVICE_HEALTHY = "version_reported", "service_healthy"
RENEWAL_WORKS, IS_SCHEDULABLE = "renewal_works", "schedulable"
CHECKS = (VERSION_REPORTED, SERVICE_HEALTHY, RENEWAL_WORKS, IS_SCHEDULABLE)  # LC-21


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    instance_id: of the agent's process when the change began; another one is the new one.
    successor_id: the node that a host installed anew has become: with a new key, under the same name.
    changed_ms: when that was (Unix milliseconds): a certificate from before proves nothing.
    token_id: of the enrolment token made for the run.
    back: it returns to a version that lies on the node, so nothing is fetched.
    url_expires_ms: of the package's address in the last stage.
    stages, verifications: how often each was asked for.
    """

    instance_id: str = ""
    successor_id: str = ""
    changed_ms: int = 0
    token_id: str = ""
    back: bool = False
    url_expires_ms: int = 0
    stages: int = 0
    verifications: int = 0


def progress_of(run: AgentRunRow) -> Progress:
    return msgspec.json.decode(run.progress, type=Progress)


def with_progress(run: AgentRunRow, **changes: int | str | bool) -> AgentRunRow:
    return msgspec.structs.replace(run, progress=json_text(msgspec.structs.replace(progress_of(run), **changes)))


def subject_of(run: AgentRunRow) -> str:
    """Id of the node that the run is about by now."""
    return progress_of(run).successor_id or run.node_id


def checks_of(run: AgentRunRow) -> dict[str, int]:
    """Check → the moment it held first (Unix milliseconds)."""
    return msgspec.json.decode(run.checks, type=dict[str, int])


def missing(run: AgentRunRow) -> list[str]:
    """The checks that have not held yet (LC-21)."""
    held = checks_of(run)
    return [name for name in CHECKS if name not in held]
