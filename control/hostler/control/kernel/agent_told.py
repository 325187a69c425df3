"""Events of lifecycle runs: `agent.run_changed`, `agent.upgrade.*`, `agent.rollback.completed` (EV-06..09)."""

from typing import Any

import msgspec

from hostler.control.kernel import events
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.agent_rows import AgentRunRow
from hostler.control.kernel.changes import Change
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import EventRow, NodeRow
from hostler.control.kernel.tasks import node_of

CHANGED = "agent.run_changed"
STARTED, COMPLETED, NOT_DONE = "agent.upgrade.started", "agent.upgrade.completed", "agent.upgrade.failed"
RETURNED = "agent.rollback.completed"


def run(
    draft: Draft,
    row: AgentRunRow,
    type_: str = CHANGED,
    *,
    actor: Actor | None = None,
    action: str = "",
    change: Change | None = None,
    **more: Any,
) -> None:
    """Something about a run; with an `action`, also a line of the audit."""
    body = {
        "node_id": row.node_id,
        "run_id": row.run_id,
        "rollout_id": row.rollout_id,
        "mode": row.mode,
        "scenario": row.scenario,
        "from_version": row.from_version,
        "to_version": row.target_version,
        "safety_policy": row.safety_policy,
        "state": row.state,
        "waiting_for": row.waiting_for,
        "reason": row.error_message,
    }
    said = events.node_event(
        type_,
        node_of(draft, row.node_id),
        draft.now_ms,
        actor=actor,
        action=action,
        error_code=row.error_code,
        change=change,
        **body,
        **more,
    )
    draft.events.append(_correlated(said, row.correlation_id))


def returned(draft: Draft, node: NodeRow, row: AgentRunRow | None, **body: Any) -> None:
    """A node is back on an earlier version and says so itself (EV-09). `row` is the run that had sent it away."""
    said = events.node_event(
        RETURNED,
        node,
        draft.now_ms,
        node_id=node.node_id,
        run_id=row.run_id if row else "",
        rollout_id=row.rollout_id if row else "",
        **body,
    )
    draft.events.append(_correlated(said, row.correlation_id if row else ""))


def _correlated(event: EventRow, correlation_id: str) -> EventRow:
    return msgspec.structs.replace(event, correlation_id=correlation_id)
