"""Cancelling and trying again."""

import msgspec

from hostler.base.errors import error
from hostler.base.ids import ATTEMPT
from hostler.control.kernel import changes, events
from hostler.control.kernel.assign import fill, judged_again, order_cancel
from hostler.control.kernel.commands import Actor, CancelOperation, RetryOperation
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import AttemptRow, DefinitionRow, OperationRow, TaskRow
from hostler.control.kernel.tasks import end_task, move_task, node_of, operation_of
from hostler.control.kernel.transitions import CANCELED, FAILED, FINAL, OPERATION, QUEUED, advance
from hostler.wire.task import ReusedStep

replace = msgspec.structs.replace
CHAIN_TRIGGERS = ("allocation_provision", "allocation_release")
_REUSABLE = ("succeeded", "reused")


def cancel(draft: Draft, command: CancelOperation) -> Decision:
    """Queued tasks end here; what a node may have begun ends when the node says so (OP-17)."""
    operation = own(draft, command.actor, command.project_id, command.operation_id)
    check_own_to_move(operation, command.actor)
    if operation.status in FINAL:
        raise error("operation_final", f"operation {operation.operation_id} is {operation.status}")
    was_requested = operation.cancel_requested_ms != 0
    operation = replace(operation, cancel_requested_ms=operation.cancel_requested_ms or draft.now_ms)
    draft.update(operation)
    draft.events.append(
        events.operation_event(
            "operation.cancel_requested",
            operation,
            draft.now_ms,
            actor=command.actor,
            action="operation.cancel",
            result="accepted",
            change=changes.Change(
                {"status": operation.status, "cancel_requested": was_requested},
                {"status": operation.status, "cancel_requested": True},
            ),
        )
    )
    cancel_open_tasks(draft, operation)
    return draft.decision()


def cancel_open_tasks(draft: Draft, operation: OperationRow) -> None:
    """Queued tasks end here; what a node may have begun ends when the node says so."""
    for task in draft.tasks_of(operation.operation_id):
        if task.state == QUEUED:
            end_task(draft, task, "cancel", error_code="canceled", error_message="cancelled before it was sent")
        elif task.state not in FINAL and not task.cancel_requested:
            request_cancel(draft, task)


def request_cancel(draft: Draft, task: TaskRow) -> TaskRow:
    """Signs the order now for a connected node, and at its next hello for another."""
    node = node_of(draft, task.node_id)
    if node.connection == "connected":
        return order_cancel(draft, task, node)
    marked = replace(task, cancel_requested=1)
    draft.update(marked)
    return marked


def retry(draft: Draft, command: RetryOperation) -> Decision:
    """A new attempt of every task that did not succeed (RT-03, RT-04)."""
    operation = own(draft, command.actor, command.project_id, command.operation_id)
    check_own_to_move(operation, command.actor)
    if draft.settings.jobs.is_job(operation.operation_type):
        raise error(
            "operation_final",
            f"operation {operation.operation_id} is a job: its tasks are tried again by themselves, as its spec says",
            hint="submit the job again under its name; one that has ended makes way",
        )
    retry_operation(draft, operation, command.actor)
    return draft.decision()


def retry_operation(draft: Draft, operation: OperationRow, actor: Actor | None = None) -> None:
    """See `retry`. Without an actor another line of the audit names it."""
    status = advance(OPERATION, operation.status, "retry", f"operation {operation.operation_id}")
    operation, refusal = judged_again(draft, operation)
    if refusal is not None:
        raise refusal
    tried = operation
    again = [t for t in draft.tasks_of(operation.operation_id) if t.state in (FAILED, CANCELED)]
    draft.update(
        replace(
            operation,
            status=status,
            attempt_number=operation.attempt_number + 1,
            cancel_requested_ms=0,
            error_code="",
            error_message="",
            failed_task_id="",
            failed_step_id="",
            started_at_ms=0,
            finished_at_ms=0,
            deadline_ms=draft.now_ms + draft.settings.start_within_ms,
        )
    )
    now = operation_of(draft, operation.operation_id)
    draft.events.append(
        events.operation_event(
            "operation.retried",
            now,
            draft.now_ms,
            actor=actor,
            action="operation.retry" if actor else "",
            result="accepted" if actor else "",
            change=changes.of_rows(tried, now, "status", "attempt_number"),
            tasks=len(again),
        )
    )
    reusable = _reusable_steps(draft, operation)
    for task in again:
        _new_attempt(draft, task, reusable)
    fill(draft, operation.operation_id)


def check_own_to_move(operation: OperationRow, actor: Actor) -> None:
    """A chain's own operations are moved by the allocation alone (AL-06), those of a lifecycle run by that, or by a
    platform administrator. Raises `chain_order`, `scope_denied`."""
    if operation.trigger_source == "agent_lifecycle" and actor.role != "platform_admin":
        raise error(
            "scope_denied",
            f"operation {operation.operation_id} belongs to a lifecycle run of the node's agent",
            hint="ask an administrator of the platform",
        )
    chained = operation.trigger_source in CHAIN_TRIGGERS
    forced = operation.trigger_source == "system" and operation.linked_allocation_id
    if chained or (forced and actor.role != "platform_admin"):
        raise error(
            "chain_order",
            f"operation {operation.operation_id} belongs to allocation {operation.linked_allocation_id}",
            hint="use 'hostler allocations release' or 'retry'",
        )


def _new_attempt(draft: Draft, task: TaskRow, reusable: tuple[str, ...]) -> None:
    number = task.attempt_number + 1
    attempt = AttemptRow(
        attempt_uid=draft.ids.new(ATTEMPT, draft.now_ms),
        task_id=task.task_id,
        attempt_number=number,
        node_id=task.node_id,
        reused=msgspec.msgpack.encode(reused_steps(draft, task, reusable)),
        created_at_ms=draft.now_ms,
    )
    draft.insert(attempt)
    move_task(
        draft,
        task,
        "retry",
        attempt_number=number,
        attempt_uid=attempt.attempt_uid,
        sequence=0,
        envelope_digest="",
        expires_at_ms=0,
        cancel_sequence=0,
        cancel_requested=0,
        accepted_at_ms=0,
        plan_digest="",
        error_code="",
        error_message="",
        error_hint="",
        failed_step_id="",
        started_at_ms=0,
        finished_at_ms=0,
    )


def reused_steps(draft: Draft, task: TaskRow, order: tuple[str, ...]) -> list[ReusedStep]:
    """Results that stand: what the last attempt took over or finished, in the definition's order."""
    last = draft.get(AttemptRow, task.attempt_uid)
    kept = {step.step_id: step for step in decode_reused(last)} if last else {}
    for step in draft.view.steps_of(task.task_id, task.attempt_number):
        if step.status in _REUSABLE:
            kept[step.step_id] = ReusedStep(step.step_id, step.receipt_digest, step.outputs)
        else:
            kept.pop(step.step_id, None)
    return [kept[step_id] for step_id in order if step_id in kept]


def decode_reused(attempt: AttemptRow) -> list[ReusedStep]:
    return msgspec.msgpack.decode(attempt.reused, type=list[ReusedStep]) if attempt.reused else []


def _reusable_steps(draft: Draft, operation: OperationRow) -> tuple[str, ...]:
    row = draft.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
    if row is None:
        return ()
    return tuple(step.id for step in definition_of(row.document).steps if step.reusable)


def own(draft: Draft, actor: Actor, project_id: str, operation_id: str) -> OperationRow:
    """The operation, if it is of the actor's project; else it does not exist for them (S2)."""
    operation = draft.get(OperationRow, operation_id)
    foreign = operation is not None and (
        operation.project_id != project_id or (actor.org_id and actor.org_id != operation.org_id)
    )
    if operation is None or foreign:
        raise error("not_found", f"there is no operation {operation_id} in project {project_id}")
    return operation
