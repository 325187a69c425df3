"""Which queued tasks go to their nodes now. A task is signed when its node can take it, not before.

So the short window of an envelope (OD-30) begins when it can be used: at submit for a connected node, at
hello for one that was away, and again when a window passed before the node took the task.
"""

import msgspec

from hostler.control.kernel import events
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import ACTIVE, DRAINING
from hostler.control.kernel.model import CancelOrder, Draft, TaskOrder
from hostler.control.kernel.rows import CursorRow, NodeRow, OperationRow, TaskRow
from hostler.control.kernel.tasks import fail_task, move_task, node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL, QUEUED
from hostler.wire.task import Policy

replace = msgspec.structs.replace
# A node's clock may be a little behind ours; its own check of `not_before` should not trip over that.
CLOCK_SKEW_MS = 60_000


def policy_of(operation: OperationRow) -> Policy:
    """The effective policy the operation was submitted under."""
    return msgspec.json.decode(operation.policy, type=Policy)


def cursor_of(draft: Draft, node_id: str) -> CursorRow:
    cursor = draft.get(CursorRow, node_id)
    if cursor is None:
        cursor = CursorRow(node_id=node_id)
        draft.insert(cursor)
    return cursor


def next_sequence(draft: Draft, node_id: str) -> int:
    """Only ever rises, whatever becomes of the task it is given to."""
    cursor = cursor_of(draft, node_id)
    sequence = cursor.sequence + 1
    draft.update(replace(cursor, sequence=sequence))
    return sequence


def free_slots(draft: Draft, operation: OperationRow) -> int:
    """How many more of its tasks may be in flight under `max_concurrency`."""
    limit = policy_of(operation).max_concurrency
    return limit - operation.tasks_in_flight if limit else draft.settings.max_tasks


def assign(draft: Draft, task: TaskRow, node: NodeRow) -> TaskRow:
    """Orders an envelope for a task; ownership is checked again first (OP-09)."""
    operation = operation_of(draft, task.operation_id)
    refusal = _dispatch_refusal(draft, operation, node)
    if refusal is not None:
        return fail_task(draft, task, *refusal)
    sequence = next_sequence(draft, node.node_id)
    expires = draft.now_ms + draft.settings.envelope_window_ms
    order = TaskOrder(task.task_id, node, sequence, draft.ids.nonce(), draft.now_ms - CLOCK_SKEW_MS, expires)
    draft.orders[task.task_id, 0] = order
    draft.wake.add(node.node_id)
    if task.sequence:
        draft.events.append(
            events.task_event(
                "task.signed_again", operation, task, draft.now_ms, sequence=sequence, before=task.sequence
            )
        )
    return move_task(draft, task, "assign", sequence=sequence, expires_at_ms=expires)


def _dispatch_refusal(draft: Draft, operation: OperationRow, node: NodeRow) -> tuple[str, str] | None:
    if node.state != "active":
        return "revoked", f"node {node.name} was revoked before the task was sent"
    if (node.org_id, node.project_id) != (operation.org_id, operation.project_id):
        return "target_not_owned", f"node {node.name} left the project before the task was sent"
    if node.allocation_id != (operation.linked_allocation_id or ""):
        return "wrong_allocation", f"node {node.name} changed hands before the task was sent"
    if operation.linked_allocation_id and of_tenant(operation):
        allocation = draft.get(AllocationRow, operation.linked_allocation_id)
        if allocation is None or allocation.state != ACTIVE:
            return "allocation_state", f"allocation {operation.linked_allocation_id} ended before the task was sent"
    return None


def of_tenant(operation: OperationRow) -> bool:
    """Not one of a chain, of an administrator, or of the control plane itself."""
    return operation.trigger_source == "tenant_request"


def waits(node: NodeRow, operation: OperationRow) -> bool:
    """Whether nothing of the operation is sent to the node for now. A drain holds back only what tenants ask for."""
    return node.connection != "connected" or bool(node.hold) or (node.scheduling == DRAINING and of_tenant(operation))


def order_cancel(draft: Draft, task: TaskRow, node: NodeRow) -> TaskRow:
    """Orders a signed cancel; the task ends when the node has confirmed it (OP-17)."""
    sequence = next_sequence(draft, node.node_id)
    expires = draft.now_ms + draft.settings.envelope_window_ms
    draft.orders[task.task_id, 1] = CancelOrder(
        task.task_id, node, sequence, draft.ids.nonce(), draft.now_ms - CLOCK_SKEW_MS, expires
    )
    draft.wake.add(node.node_id)
    moved = replace(task, cancel_requested=1, cancel_sequence=sequence)
    draft.update(moved)
    return moved


def fill(draft: Draft, operation_id: str) -> None:
    """Gives freed slots of an operation to its queued tasks whose nodes are connected."""
    operation = operation_of(draft, operation_id)
    if not operation.tasks_queued or operation.status in FINAL:
        return
    slots = free_slots(draft, operation)
    if slots <= 0:
        return
    for task in draft.tasks_of(operation_id):
        if task.state != QUEUED:
            continue
        node = node_of(draft, task.node_id)
        if node.state == "active" and waits(node, operation):
            continue
        if assign(draft, task, node).state == ASSIGNED:
            slots -= 1
        if slots <= 0:
            return


def give_up(draft: Draft, task: TaskRow, code: str, message: str) -> None:
    """Fails a task by our own decision and passes its slot on."""
    fail_task(draft, task, code, message)
    freed(draft, task.operation_id)


def freed(draft: Draft, operation_id: str) -> None:
    """A task of the operation ended: a limited one may send its next."""
    operation = operation_of(draft, operation_id)
    if operation.tasks_queued and policy_of(operation).max_concurrency:
        fill(draft, operation_id)
