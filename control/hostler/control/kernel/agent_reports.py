"""What agents say of themselves becomes state: drift, a trial, a return to an earlier version (LC-04, EV-09).

The version that a node runs is not among it: only its hello sets that (LC-02).
"""

import msgspec

from hostler.control.kernel import agent_told, agent_versions, events
from hostler.control.kernel.agent_commands import RecordAgentReport
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow
from hostler.control.kernel.agent_run_steps import came_back
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import NodeRow, TaskRow
from hostler.control.kernel.tasks import node_of
from hostler.pki.agent_report import Returned

replace = msgspec.structs.replace
MAX_WORD, MAX_REASON = 100, 500
SKEW_MS = 300_000  # a report that is dated further ahead of us was made by a clock that has to be corrected yet


def record(draft: Draft, command: RecordAgentReport) -> Decision:
    """→ whether the report said anything new."""
    node, said = node_of(draft, command.node_id), command.report
    before = agent_versions.agent_of(draft, node.node_id)
    if node.state != "active" or before.report == command.document:
        return draft.decision(False)
    if said.at_ms < before.reported_at_ms <= draft.now_ms + SKEW_MS:
        return draft.decision(False)  # an older one again: the process that faces the network can keep them
    now = replace(
        before,
        commit_id=said.commit[:MAX_WORD],
        suite=said.suite[:MAX_WORD],
        drift_state=str(said.state),
        report=command.document,
        reported_at_ms=said.at_ms,
        next_report_ms=said.next_at_ms,
        trial_version=said.trial.version[:MAX_WORD] if said.trial else "",
        trial_task_id=said.trial.task_id[:MAX_WORD] if said.trial else "",
        returned_at_ms=said.returned.at_ms if said.returned else before.returned_at_ms,
    )
    draft.update(now)
    if now.drift_state != before.drift_state:
        _drifted(draft, node, before, now, [f"{each.kind} {each.name}"[:MAX_WORD] for each in said.evidence])
    if said.returned is not None and said.returned.at_ms != before.returned_at_ms:
        _returned(draft, node, said.returned)
    draft.agent_nodes[node.node_id] = None
    return draft.decision(True)


def _drifted(draft: Draft, node: NodeRow, before: NodeAgentRow, now: NodeAgentRow, evidence: list[str]) -> None:
    draft.events.append(
        events.node_event(
            "agent.drift_changed",
            node,
            draft.now_ms,
            node_id=node.node_id,
            drift_state=now.drift_state,
            was=before.drift_state,
            agent_version=node.agent_version,
            desired_version=now.desired_version,
            commit=now.commit_id,
            evidence=evidence[:8],
        )
    )


def _returned(draft: Draft, node: NodeRow, back: Returned) -> None:
    """Told once for each return, by the version that the node is on again."""
    run = _run_of(draft, node, back)
    said = {
        "from_version": back.version[:MAX_WORD],
        "to_version": back.to_version[:MAX_WORD],
        "error_code": back.error_code[:MAX_WORD],
        "reason": back.reason[:MAX_REASON],
        "task_id": back.task_id[:MAX_WORD],
    }
    agent_told.returned(draft, node, run, **said)
    if run is not None and not run.finished_at_ms:
        came_back(draft, run, said["error_code"], said["reason"])


def _run_of(draft: Draft, node: NodeRow, back: Returned) -> AgentRunRow | None:
    """The node's newest run, if it is the one whose task had activated what was given up: nobody ends another's."""
    task = draft.get(TaskRow, back.task_id) if back.task_id else None
    agent = draft.get(NodeAgentRow, node.node_id)
    run = draft.get(AgentRunRow, agent.run_id) if agent is not None and agent.run_id else None
    return run if run is not None and task is not None and run.operation_id == task.operation_id else None
