"""Events about allocations: `allocation.*`, and what becomes of their nodes (EV-11)."""

from typing import Any

from hostler.base.errors import HostlerError
from hostler.control.kernel.actor import KERNEL, Actor
from hostler.control.kernel.allocation_rows import AllocationRow, LinkRow
from hostler.control.kernel.changes import Change, made
from hostler.control.kernel.events import json_text, scope_of
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import EventRow, NodeRow


def said(
    draft: Draft,
    allocation: AllocationRow,
    type_: str,
    *,
    actor: Actor | None = None,
    action: str = "",
    node_id: str = "",
    error_code: str = "",
    change: Change | None = None,
    **body: Any,
) -> None:
    """Something about the allocation; with an `action`, also a line of the audit, which says the `change`."""
    body |= change._asdict() if change else {}
    draft.events.append(
        EventRow(
            at_ms=draft.now_ms,
            type=type_,
            org_id=allocation.org_id,
            project_id=allocation.project_id,
            node_id=node_id,
            correlation_id=allocation.correlation_id,
            resource_name=f"allocations/{allocation.allocation_id}",
            error_code=error_code,
            actor_kind=actor.kind if actor else "",
            actor=actor.name if actor else "",
            scope=scope_of(allocation.org_id, allocation.project_id) if action else "",
            action=action,
            result="accepted" if action else "",
            body=json_text({"allocation_id": allocation.allocation_id, "state": allocation.state, **body}),
        )
    )


def link(draft: Draft, allocation: AllocationRow, row: LinkRow) -> None:
    said(
        draft,
        allocation,
        "allocation.link",
        node_id=row.node_id,
        error_code=row.error_code,
        link=row.link,
        link_state=row.state,
        operation_id=row.operation_id,
        tries=row.tries,
    )


def node(draft: Draft, allocation: AllocationRow, row: NodeRow, type_: str) -> None:
    said(draft, allocation, type_, node_id=row.node_id, name=row.name, health=row.health, reclaim=row.reclaim)


def forced_revoke(
    draft: Draft, allocation: AllocationRow, node_id: str, operation_id: str, why: LinkRow, refusal: HostlerError | None
) -> None:
    said(
        draft,
        allocation,
        "allocation.access_revoked",
        actor=KERNEL,
        action="allocation.forced_revoke",
        node_id=node_id,
        error_code=refusal.code if refusal else "",
        change=made(node_id=node_id, operation_id=operation_id),
        operation_id=operation_id,
        because_of=why.operation_id,
        link=why.link,
    )
