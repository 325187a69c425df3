"""Which queued tasks go to their nodes now. A task is signed when its node can take it, not before.

So the short window of an envelope (OD-30) begins when it can be used: at submit for a connected node, at
hello for one that was away, and again when a window passed before the node took the task.
"""

import msgspec

from hostler.base.errors import HostlerError
from hostler.catalog.policy import merge, overlay_of, policy_digest
from hostler.control.kernel import capability, events, permitted, policies, targets
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import ACTIVE, DRAINING
from hostler.control.kernel.commands import TargetSelector
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Draft
from hostler.control.kernel.orders import CancelOrder, TaskOrder
from hostler.control.kernel.rows import CursorRow, DefinitionRow, NodeRow, OperationRow, TaskRow
from hostler.control.kernel.tasks import fail_task, move_task, node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL, QUEUED
from hostler.wire.task import Policy

replace = msgspec.structs.replace
# A node's clock may be a little behind ours; its own check of `not_before` should not trip over that.
CLOCK_SKEW_MS = 60_000
_LOOKED_AT = 100  # waiting operations at a time


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
    """How many more of its tasks may be in flight under `max_concurrency`: its own, and that of each scope."""
    limit = policy_of(operation).max_concurrency
    slots = limit - operation.tasks_in_flight if limit else draft.settings.max_tasks
    for level in _policy_now(draft, operation).limits:
        used = draft.in_flight(operation.operation_type, level.scope, level.scope_id)
        slots = min(slots, (level.overlay.max_concurrency or 0) - used)
    return slots


def _policy_now(draft: Draft, operation: OperationRow) -> policies.Effective:
    return policies.of_operation(
        draft, operation.org_id, operation.project_id, operation.operation_type, operation.trigger_source
    )


def judged_again(draft: Draft, operation: OperationRow) -> tuple[OperationRow, HostlerError | None]:
    """The operation under the policy as it is now, which can only be tighter, and why that forbids it (AZ-08)."""
    now = _policy_now(draft, operation)
    if now.digest == operation.policy_digest:
        return operation, None
    before = policy_of(operation)
    policy = merge(before, overlay_of(now.policy))
    if policy != before:
        operation = replace(operation, policy=events.json_text(policy), policy_digest=policy_digest(policy))
        draft.update(operation)
    return operation, permitted.refused(_question(draft, operation, policy), permitted.BUILT_IN)


def _question(draft: Draft, operation: OperationRow, policy: Policy) -> permitted.Question:
    row = draft.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
    assert row is not None
    definition = definition_of(row.document)
    selector = msgspec.json.decode(operation.target_selector, type=TargetSelector)
    return permitted.Question(
        operation_type=operation.operation_type,
        version=operation.version,
        org_id=operation.org_id,
        project_id=operation.project_id,
        trigger_source=operation.trigger_source,
        target_kinds=targets.kinds_of(selector),
        sources=permitted.sources_of(definition, msgspec.json.decode(operation.inputs)),
        definition_sources=definition.artifacts.allowed_sources,
        policy=policy,
    )


def assign(draft: Draft, task: TaskRow, node: NodeRow) -> TaskRow:
    """Orders an envelope for a task; ownership, policy and capabilities are checked again first (OP-09, AZ-08, CG-01).

    A task that its node cannot take stays as it is and says why.
    """
    operation, denied = judged_again(draft, operation_of(draft, task.operation_id))
    refusal = (denied.code, denied.message) if denied else _dispatch_refusal(draft, operation, node)
    if refusal is not None:
        return fail_task(draft, task, *refusal)
    lacking = capability.missing(draft, operation, node)
    if lacking:
        return capability.wait(draft, operation, task, lacking)
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
        if task.state != QUEUED or not task.node_id:  # a job's, that waits for a node
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
    if _policy_now(draft, operation).limits:
        fill_waiting(draft, operation.operation_type)


def fill_waiting(draft: Draft, operation_type: str) -> None:
    """Looks again at the operations of a type ("" for any) that wait: a limit or a policy has changed for them."""
    for waiting in list(draft.view.waiting_operations(operation_type, _LOOKED_AT)):
        fill(draft, waiting.operation_id)
