"""What the log says of rollouts; every event of them is made here."""

from typing import Any

import msgspec

from hostler.control.kernel import events
from hostler.control.kernel.actor import KERNEL, Actor
from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow
from hostler.control.kernel.changes import Change
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import EventRow, NodeRow

MOST_NAMED = 100  # nodes in one event


def resource(rollout_id: str) -> str:
    return f"rollouts/{rollout_id}"


def audited(
    draft: Draft, rollout: RolloutRow, type_: str, action: str, change: Change, actor: Actor = KERNEL, **body: Any
) -> None:
    """A line of the audit: somebody moved the rollout, or it moved itself by what it was told to watch for."""
    event = events.admin_event(
        type_,
        resource(rollout.rollout_id),
        draft.now_ms,
        actor=actor,
        action=action,
        change=change,
        **_said(rollout),
        **body,
    )
    _file(draft, rollout, event)


def said(draft: Draft, rollout: RolloutRow, type_: str, **body: Any) -> None:
    body = _said(rollout) | body
    event = EventRow(
        at_ms=draft.now_ms,
        type=type_,
        resource_name=resource(rollout.rollout_id),
        error_code=rollout.error_code if type_ == "rollout.finished" else "",
        body=events.json_text(body),
    )
    _file(draft, rollout, event)


def node_finished(draft: Draft, rollout: RolloutRow, row: RolloutNodeRow) -> None:
    node = draft.get(NodeRow, row.node_id)
    event = EventRow(
        at_ms=draft.now_ms,
        type="rollout.node_finished",
        node_id=row.node_id,
        resource_name=resource(rollout.rollout_id),
        error_code=row.error_code,
        body=events.json_text(
            _said(rollout)
            | {
                "name": node.name if node else row.node_id,
                "wave": row.wave,
                "boundary": row.boundary,
                "node_state": row.state,
                "failed_check": row.failed_check,
                "reason": row.reason,
                "run_id": row.rollback_run_id or row.run_id,
            }
        ),
    )
    _file(draft, rollout, event)


def names_of(draft: Draft, rows: list[RolloutNodeRow]) -> dict[str, Any]:
    """As many names as fit, and how many there are."""
    nodes = [draft.get(NodeRow, row.node_id) for row in rows[:MOST_NAMED]]
    return {"nodes": [node.name for node in nodes if node], "nodes_total": len(rows)}


def _said(rollout: RolloutRow) -> dict[str, Any]:
    return {"rollout_id": rollout.rollout_id, "version": rollout.target_version, "state": rollout.state}


def _file(draft: Draft, rollout: RolloutRow, event: EventRow) -> None:
    draft.events.append(msgspec.structs.replace(event, correlation_id=rollout.correlation_id))
