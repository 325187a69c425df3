"""The four checks that a lifecycle run ends well by (LC-21): each is noted with the moment it first held.

version_reported   the new agent itself said its version in a hello (LC-02)
service_healthy    it finished a signed task that looks at its service
renewal_works      it asked for a certificate after the change, got it and used it
schedulable        the node is connected and well, and nothing of ours keeps work from it
"""

import msgspec

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_matrix import AUTOMATED, CERTIFICATE, PROVIDER, RECONCILE, REPAIR
from hostler.control.kernel.agent_operations import place_verify
from hostler.control.kernel.agent_progress import (
    IS_SCHEDULABLE,
    RENEWAL_WORKS,
    SERVICE_HEALTHY,
    VERSION_REPORTED,
    checks_of,
    progress_of,
    subject_of,
)
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow
from hostler.control.kernel.allocation_states import DEGRADED
from hostler.control.kernel.events import json_text
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import CertificateRow, NodeRow, TaskRow
from hostler.control.kernel.tasks import operation_of
from hostler.control.kernel.transitions import FINAL

replace = msgspec.structs.replace
MOST_VERIFICATIONS = 3
Refusal = tuple[str, str]


def look(draft: Draft, run: AgentRunRow, node: NodeRow, *, ends: bool) -> tuple[AgentRunRow, Refusal | None]:
    """The run with what holds by now, and why it cannot end well, if so (code and message).

    Args:
        ends: the change is over, so that the node may take work again.
    """
    held, refused = checks_of(run), None
    if VERSION_REPORTED not in held and is_new(draft, run, node):
        held[VERSION_REPORTED] = draft.now_ms
    if VERSION_REPORTED in held and SERVICE_HEALTHY not in held:
        run, healthy, refused = _service(draft, run, node)
        if healthy:
            held[SERVICE_HEALTHY] = draft.now_ms
    if RENEWAL_WORKS not in held and renewed(draft, run):
        held[RENEWAL_WORKS] = draft.now_ms
    if ends and IS_SCHEDULABLE not in held and _is_schedulable(run, node):
        held[IS_SCHEDULABLE] = draft.now_ms
    if held != checks_of(run):
        run = replace(run, checks=json_text(held))
        draft.update(run)
    return run, refused


def is_new(draft: Draft, run: AgentRunRow, node: NodeRow) -> bool:
    """What speaks for the node now is what the run was to bring."""
    if node.connection != "connected" or (run.target_version and node.agent_version != run.target_version):
        return False
    began = progress_of(run)
    if began.successor_id:
        return True
    if run.kind == PROVIDER:
        return False
    if run.scenario == CERTIFICATE:
        return renewed(draft, run)
    if run.target_version != run.from_version or _is_on_trial(draft, run):
        return True
    return node.instance_id != began.instance_id or not _restarts(run)


def _is_on_trial(draft: Draft, run: AgentRunRow) -> bool:
    """The node's own report says that this run's task is being tried."""
    agent = draft.get(NodeAgentRow, run.node_id)
    task = draft.get(TaskRow, agent.trial_task_id) if agent is not None and agent.trial_task_id else None
    return task is not None and task.operation_id == run.operation_id


def _restarts(run: AgentRunRow) -> bool:
    """Whether the agent is changed although its version may stay."""
    return run.kind != AUTOMATED or run.scenario in (REPAIR, RECONCILE) or run.target_version != run.from_version


def _service(draft: Draft, run: AgentRunRow, node: NodeRow) -> tuple[AgentRunRow, bool, Refusal | None]:
    """Asks the new agent for a task of its own, and again if that failed: a service may need a moment."""
    asked = operation_of(draft, run.verify_operation_id) if run.verify_operation_id else None
    if asked is not None and asked.status not in FINAL:
        return run, False, None
    if asked is not None and asked.status == "succeeded":
        return run, True, None
    if asked is not None and progress_of(run).verifications >= MOST_VERIFICATIONS:
        return run, False, (asked.error_code or "canceled", f"the agent's service is not well: {asked.error_message}")
    if node.connection != "connected" or node.hold:
        return run, False, None
    try:
        return place_verify(draft, run, node), False, None
    except HostlerError as err:
        return run, False, (err.code, err.message)


def renewed(draft: Draft, run: AgentRunRow) -> bool:
    """A certificate that was asked for after the change is in use."""
    proved = [row for row in _certificates(draft, subject_of(run)) if row.state == "proved"]
    if not _restarts(run):
        return bool(proved)
    since = progress_of(run).changed_ms
    return any(row.serial != run.baseline_serial and row.issued_at_ms >= since for row in proved)


def proved_serial(draft: Draft, node_id: str) -> str:
    """Of the certificate in use; "" for none."""
    proved = [row for row in _certificates(draft, node_id) if row.state == "proved"]
    return max(proved, key=lambda row: row.issued_at_ms).serial if proved else ""


def _certificates(draft: Draft, node_id: str) -> list[CertificateRow]:
    rows = draft.rows_of(CertificateRow, draft.view.certificates_of(node_id))
    return [row for row in rows if row.node_id == node_id]


def _is_schedulable(run: AgentRunRow, node: NodeRow) -> bool:
    """What people and chains decided about the node is not the agent's doing: cordons and quarantine may stay."""
    return node.connection == "connected" and not node.hold and not run.cordoned and node.health != DEGRADED


def wants_renewal(draft: Draft, run: AgentRunRow | None, node: NodeRow) -> bool:
    """An agent on trial renews by itself; one that a person installed is asked to (LC-21)."""
    return run is not None and run.kind != AUTOMATED and is_new(draft, run, node) and not renewed(draft, run)
