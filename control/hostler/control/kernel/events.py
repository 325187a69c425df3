"""Events as they stand in the log (EV-01..05, EV-10, EV-11, OB-01). Every event is made here."""

from typing import Any

import msgspec

from hostler.base.errors import HostlerError
from hostler.control.kernel.changes import NONE, Change
from hostler.control.kernel.commands import Actor
from hostler.control.kernel.rows import EventRow, NodeRow, OperationRow, StepRow, TaskRow

REQUESTED = "operation.requested"
PROGRESS = "operation.progress"
COMPLETED = "operation.completed"
FAILED = "operation.failed"
CANCELED = "operation.canceled"
TERMINAL = {"succeeded": COMPLETED, "failed": FAILED, "canceled": CANCELED}

_json = msgspec.json.Encoder().encode


def json_text(value: Any) -> str:
    """JSON for a text column."""
    return _json(value).decode()


def scope_of(org_id: str, project_id: str) -> str:
    """`org/project`, `org`, or `global`."""
    return f"{org_id}/{project_id}" if project_id else org_id or "global"


class ProgressBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The least that EV-02 asks for, and where it happened."""

    operation_id: str
    correlation_id: str
    current_step_index: int
    total_steps: int
    current_step_name: str
    step_status: str
    step_started_at: int
    step_kind: str
    task_id: str
    node_id: str
    attempt_number: int
    error_code: str
    duration_ms: int
    resolved_profile: str
    hardware_match: str
    step_percent: int | None = None


def progress(operation: OperationRow, task: TaskRow, step: StepRow, now_ms: int) -> EventRow:
    """A step began or ended."""
    body = ProgressBody(
        operation.operation_id,
        operation.correlation_id,
        step.step_index,
        operation.total_steps,
        step.step_id,
        step.status,
        step.started_at_ms,
        step.step_kind,
        task.task_id,
        task.node_id,
        step.attempt_number,
        step.error_code,
        step.duration_ms,
        step.resolved_profile,
        step.hardware_match,
        100 if step.status in ("succeeded", "reused", "planned") else None,
    )
    return _of_task(PROGRESS, operation, task, now_ms, step.error_code, json_text(body))


def task_event(
    type_: str, operation: OperationRow, task: TaskRow, now_ms: int, error_code: str = "", **body: Any
) -> EventRow:
    """Something about one task: `task.finished`, `task.late_result`, `task.signed_again`."""
    body |= {"attempt_number": task.attempt_number}
    return _of_task(type_, operation, task, now_ms, error_code, json_text(body))


def _of_task(type_: str, operation: OperationRow, task: TaskRow, now_ms: int, error_code: str, body: str) -> EventRow:
    return EventRow(
        at_ms=now_ms,
        type=type_,
        org_id=operation.org_id,
        project_id=operation.project_id,
        operation_id=operation.operation_id,
        operation_type=operation.operation_type,
        task_id=task.task_id,
        node_id=task.node_id,
        correlation_id=operation.correlation_id,
        resource_name=f"nodes/{task.node_id}" if task.node_id else f"tasks/{task.task_id}",
        error_code=error_code,
        body=body,
    )


def operation_event(
    type_: str,
    operation: OperationRow,
    now_ms: int,
    *,
    actor: Actor | None = None,
    action: str = "",
    result: str = "",
    error_code: str = "",
    change: Change | None = None,
    **body: Any,
) -> EventRow:
    """Something about an operation; with an `action`, also a line of the audit, which says the `change`."""
    body |= {"operation_id": operation.operation_id, "attempt_number": operation.attempt_number}
    body |= change._asdict() if change else {}
    return EventRow(
        at_ms=now_ms,
        type=type_,
        org_id=operation.org_id,
        project_id=operation.project_id,
        operation_id=operation.operation_id,
        operation_type=operation.operation_type,
        correlation_id=operation.correlation_id,
        resource_name=f"operations/{operation.operation_id}",
        error_code=error_code,
        actor_kind=actor.kind if actor else "",
        actor=actor.name if actor else "",
        scope=scope_of(operation.org_id, operation.project_id) if action else "",
        action=action,
        result=result,
        body=json_text(body),
    )


def node_event(
    type_: str,
    node: NodeRow,
    now_ms: int,
    *,
    actor: Actor | None = None,
    action: str = "",
    error_code: str = "",
    result: str = "",
    change: Change | None = None,
    **body: Any,
) -> EventRow:
    """Something about a node; with an `action`, also a line of the audit, which says the `change`."""
    body |= change._asdict() if change else {}
    return EventRow(
        at_ms=now_ms,
        type=type_,
        org_id=node.org_id,
        project_id=node.project_id,
        node_id=node.node_id,
        resource_name=f"nodes/{node.node_id}",
        error_code=error_code,
        actor_kind=actor.kind if actor else "",
        actor=actor.name if actor else "",
        scope=scope_of(node.org_id, node.project_id) if action else "",
        action=action,
        result=result or ("accepted" if action else ""),
        body=json_text({"name": node.name, **body}),
    )


def admin_event(
    type_: str,
    resource_name: str,
    now_ms: int,
    *,
    actor: Actor,
    action: str,
    change: Change,
    org_id: str = "",
    project_id: str = "",
    **body: Any,
) -> EventRow:
    """A change by an administrator that is about neither a node nor an operation."""
    return EventRow(
        at_ms=now_ms,
        type=type_,
        org_id=org_id,
        project_id=project_id,
        resource_name=resource_name,
        actor_kind=actor.kind,
        actor=actor.name,
        scope=scope_of(org_id, project_id),
        action=action,
        result="accepted",
        body=json_text(body | change._asdict()),
    )


def refused_event(
    type_: str,
    resource_name: str,
    now_ms: int,
    refusal: HostlerError,
    *,
    actor: Actor,
    action: str,
    org_id: str = "",
    project_id: str = "",
    **ids: str,
) -> EventRow:
    """A mutation that was asked for and not made (SE-02)."""
    return EventRow(
        at_ms=now_ms,
        type=type_,
        org_id=org_id,
        project_id=project_id,
        operation_id=ids.get("operation_id", ""),
        node_id=ids.get("node_id", ""),
        correlation_id=ids.get("correlation_id", ""),
        resource_name=resource_name,
        error_code=refusal.code,
        actor_kind=actor.kind,
        actor=actor.name,
        scope=scope_of(org_id, project_id),
        action=action,
        result="refused",
        body=json_text({"message": refusal.message, **NONE._asdict()}),
    )
