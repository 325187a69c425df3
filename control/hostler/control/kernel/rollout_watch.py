"""What a run's end or a node's standing says about a version: pure judgements over rows (LC-16, LC-21).

Only what the version can be blamed for is its failure. A node that is away, busy or out of service has not tried it;
a server that throttles is the server's trouble.
"""

from typing import NamedTuple

from hostler.base.codes import CODES
from hostler.control.kernel.agent_progress import OPERATOR, SERVICE_HEALTHY, VERSION_REPORTED, checks_of
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow, RolloutNodeRow
from hostler.control.kernel.allocation_states import DEGRADED, QUARANTINED
from hostler.control.kernel.rollout_states import (
    CHECKS,
    FAILED,
    NODE_AWAY,
    NODE_UNHEALTHY,
    PENDING,
    ROLLED_BACK,
    RUN_IN_PROGRESS,
    SERVER_BUSY,
    SKIPPED,
    SOAKING,
    SUCCEEDED,
    WAITING_FOR_OPERATOR,
)
from hostler.control.kernel.rows import NodeRow
from hostler.pki.agent_report import DriftState

_SERVERS = frozenset({"rate_limited"})  # besides everything that is `Unavailable`
_TOO_LATE = {
    NODE_AWAY: "the node was away for too long",
    NODE_UNHEALTHY: "the node was out of service for too long",
    WAITING_FOR_OPERATOR: "a lifecycle run of the node waits for a person, and nobody did what it asks for",
    RUN_IN_PROGRESS: "another lifecycle run of the node took too long",
    SERVER_BUSY: "the control plane, or where packages are fetched from, was not to be reached for too long",
}


class Verdict(NamedTuple):
    """`state` of the node's row; `waiting_for` where that is pending."""

    state: str
    reason: str = ""
    error_code: str = ""
    check: str = ""
    waiting_for: str = ""


def of_run(run: AgentRunRow, node: NodeRow, target: str) -> Verdict:
    """What the end of a run towards the version means for its node."""
    checks = checks_of(run)
    missing = next((check for check in CHECKS if not checks.get(check)), "")
    if run.state == SUCCEEDED and not missing:
        return Verdict(SOAKING)
    code = run.error_code or "upgrade_timed_out"
    reason = run.error_message or f"the run ended as {run.state}"
    took = node.agent_version == target
    if run.state == ROLLED_BACK:
        return Verdict(ROLLED_BACK, reason, code, missing)
    if node.state != "active":
        return Verdict(SKIPPED, "its identity was revoked", "revoked")
    if run.state == "canceled":
        return Verdict(SKIPPED, f"its run was ended by hand: {reason}", code)
    if not took and not run.operation_id and code == "upgrade_timed_out":
        return Verdict(SKIPPED, f"it could not begin in time: {run.waiting_for or reason}", code)
    if not took and is_the_servers(code):
        return Verdict(PENDING, f"to be tried again: {reason}", waiting_for=SERVER_BUSY)
    return Verdict(FAILED, reason, code, missing)


def is_the_servers(code: str) -> bool:
    """Whether an error says that somebody was not to be reached, or had too much to do."""
    return code in _SERVERS or (code in CODES and CODES[code].family == "Unavailable")


def of_soaking(node: NodeRow, agent: NodeAgentRow | None, row: RolloutNodeRow, target: str) -> Verdict | None:
    """None while the node stands, or is away, which says nothing."""
    if node.state != "active":
        return Verdict(SKIPPED, "its identity was revoked", "revoked")
    if node.agent_version != target:
        state = ROLLED_BACK if node.agent_version == row.from_version else FAILED
        reason = f"it runs {node.agent_version or 'no known version'} again"
        return Verdict(state, reason, "upgrade_rolled_back", VERSION_REPORTED)
    by_a_chain = node.quarantined_by != "person" and node.quarantined_at_ms > row.took_at_ms
    if node.health == DEGRADED or (node.health == QUARANTINED and by_a_chain):
        reason = f"its health became {node.health}: {node.health_reason}".rstrip(": ")
        return Verdict(FAILED, reason, "health_red", SERVICE_HEALTHY)
    if agent is not None and agent.drift_state == DriftState.CERTIFICATE_ONLY:
        return Verdict(FAILED, "its certificate is not renewed any more", "certificate_invalid", "renewal_works")
    return None


def not_needed(node: NodeRow, target: str) -> str:
    """Why a node whose turn it is gets no run at all, "" where it does."""
    if node.state != "active":
        return "its identity is revoked"
    return "it runs that version already" if node.agent_version == target else ""


def waits_for(node: NodeRow, row: RolloutNodeRow, now_ms: int) -> str:
    """Why the node cannot begin now by what it is itself, "" where it can."""
    if node.connection != "connected":
        return NODE_AWAY
    if node.health == DEGRADED or node.hold:
        return NODE_UNHEALTHY
    return SERVER_BUSY if now_ms < row.not_before_ms else ""


def behind(run: AgentRunRow) -> str:
    """Why a node waits whose open run is not the rollout's."""
    return WAITING_FOR_OPERATOR if run.state == OPERATOR else RUN_IN_PROGRESS


def too_late(waited_for: str) -> str:
    return _TOO_LATE[waited_for]


def differs(before: NodeRow, after: NodeRow) -> bool:
    """In what a watched node is judged by. Not in its connection: thousands lose theirs at once."""
    names = ("agent_version", "health", "hold", "state")
    return any(getattr(before, name) != getattr(after, name) for name in names)
