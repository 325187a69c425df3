"""Moving tasks and, with them, their operation: counters, status, the one terminal event (OP-10, EV-10)."""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import events
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import AttemptRow, NodeRow, OperationRow, TaskRow
from hostler.control.kernel.transitions import (
    ASSIGNED,
    CANCELED,
    FAILED,
    FINAL,
    OPERATION,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TASK,
    advance,
)

replace = msgspec.structs.replace

_COUNTER = {
    QUEUED: "tasks_queued",
    ASSIGNED: "tasks_in_flight",
    RUNNING: "tasks_in_flight",
    SUCCEEDED: "tasks_succeeded",
    FAILED: "tasks_failed",
    CANCELED: "tasks_canceled",
}


def operation_of(draft: Draft, operation_id: str) -> OperationRow:
    operation = draft.get(OperationRow, operation_id)
    if operation is None:
        raise error("internal_error", f"operation {operation_id} of a task is absent")
    return operation


def node_of(draft: Draft, node_id: str) -> NodeRow:
    node = draft.get(NodeRow, node_id)
    if node is None:
        raise error("not_found", f"there is no node {node_id}")
    return node


def move_task(draft: Draft, task: TaskRow, event: str, **changes: Any) -> TaskRow:
    """The task after `event`, filed in the draft, with its operation's counters and status."""
    state = advance(TASK, task.state, event, f"task {task.task_id}")
    moved = replace(task, state=state, waiting_for="", **changes)
    draft.update(moved)
    _count(draft, task.state, moved)
    return moved


def end_task(draft: Draft, task: TaskRow, event: str, *, attempt_state: str = "", **changes: Any) -> TaskRow:
    """Moves a task to a final state and ends its present attempt.

    Args:
        attempt_state: what the attempt's own row says, where that differs from the task's state.
    """
    code = changes.get("error_code", "")
    again = draft.take_again(draft, task, event, attempt_state, code, changes.get("error_message", ""))
    if again is not None:  # a job's, which waits for another node
        return again
    moved = move_task(draft, task, event, finished_at_ms=draft.now_ms, **changes)
    attempt = draft.get(AttemptRow, task.attempt_uid)
    if attempt is not None:
        draft.update(
            replace(
                attempt,
                state=attempt_state or moved.state,
                exit=moved.error_code,
                started_at_ms=moved.started_at_ms,
                finished_at_ms=draft.now_ms,
            )
        )
    operation = operation_of(draft, task.operation_id)
    draft.events.append(
        events.task_event("task.finished", operation, moved, draft.now_ms, moved.error_code, state=moved.state)
    )
    settle(draft, operation)
    if operation.linked_allocation_id or operation.linked_node_id:
        draft.touched[operation.operation_id, task.node_id] = None
    if draft.settings.jobs.is_job(operation.operation_type):
        draft.job_tasks[task.task_id] = None
    if task.node_id:
        draft.agent_nodes[task.node_id] = None
    return moved


def fail_task(draft: Draft, task: TaskRow, code: str, message: str, hint: str = "") -> TaskRow:
    """Ends a task by our own decision; if the node may have begun it, its attempt is `lost`, not failed."""
    seen = task.state != QUEUED
    return end_task(
        draft,
        task,
        "fail",
        attempt_state="lost" if seen else "",
        error_code=code,
        error_message=message,
        error_hint=hint,
    )


def _count(draft: Draft, before: str, task: TaskRow) -> None:
    old, new = _COUNTER[before], _COUNTER[task.state]
    operation = operation_of(draft, task.operation_id)
    changes: dict[str, Any] = {}
    if old != new:
        changes = {old: getattr(operation, old) - 1, new: getattr(operation, new) + 1}
    if task.state == RUNNING and operation.status == QUEUED:
        changes["status"] = advance(OPERATION, QUEUED, "start", operation.operation_id)
        changes["started_at_ms"] = draft.now_ms
    if task.state == FAILED and not operation.error_code:
        changes |= {
            "error_code": task.error_code or "internal_error",
            "error_message": task.error_message,
            "failed_task_id": task.task_id,
            "failed_step_id": task.failed_step_id,
        }
    if changes:
        draft.update(replace(operation, **changes))


def settle(draft: Draft, operation: OperationRow) -> OperationRow:
    """Ends the operation once nothing of it is queued or in flight; else returns it as it is."""
    if operation.tasks_queued or operation.tasks_in_flight or operation.status in FINAL:
        return operation
    event = outcome(operation)
    status = advance(OPERATION, operation.status, event, f"operation {operation.operation_id}")
    ended = replace(operation, status=status, finished_at_ms=draft.now_ms)
    draft.update(ended)
    draft.events.append(
        events.operation_event(
            events.TERMINAL[status],
            ended,
            draft.now_ms,
            error_code=ended.error_code if status == FAILED else "",
            status=status,
            correlation_id=ended.correlation_id,
            failed_step=ended.failed_step_id if status == FAILED else "",
            failed_task=ended.failed_task_id if status == FAILED else "",
            error_message=ended.error_message if status == FAILED else "",
            succeeded=ended.tasks_succeeded,
            failed=ended.tasks_failed,
            canceled=ended.tasks_canceled,
        )
    )
    return ended


def outcome(operation: OperationRow) -> str:
    """What the tasks' ends make of the operation: any failure fails it, else any cancel cancels it."""
    if operation.tasks_failed:
        return "fail"
    return "cancel" if operation.tasks_canceled else "succeed"
