"""Status probes of tasks: asked when it is unclear what became of one, and what follows from the answer (LC-17, SK-23).

Only a task that is still open for us is moved by an answer; what has ended stays as it ended (LC-18).
"""

from typing import Any

import msgspec

from hostler.control.kernel import events
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.assign import cursor_of, give_up
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, OperationRow, StepRow, TaskRow
from hostler.control.kernel.submit import place
from hostler.control.kernel.tasks import move_task, node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL, RUNNING

TYPE, VERSION = "node.task.probe", "v1"
ASKERS = ("admin", "system")  # to whom nodes tell of anybody's tasks


def unclear(draft: Draft, node: NodeRow) -> list[TaskRow]:
    """Tasks that the node took and has not ended, oldest first, less those that are being asked about already."""
    taken = cursor_of(draft, node.node_id).accepted_sequence
    open_tasks = list(draft.open_tasks_on(node.node_id))
    asked = {_about(operation_of(draft, t.operation_id)).get("attempt_uid") for t in open_tasks if _is_probe(draft, t)}
    found = [
        task
        for task in open_tasks
        if task.state in (ASSIGNED, RUNNING)
        and 0 < task.sequence <= taken
        and task.attempt_uid not in asked
        and not _is_probe(draft, task)
    ]
    return sorted(found, key=lambda task: task.sequence)


def ask(draft: Draft, node: NodeRow, task: TaskRow, actor: Actor, correlation_id: str, *, key: str = "") -> str:
    """→ operation id. Raises what a submit is refused with.

    Args:
        key: idempotency key; "" for one of its own.
    """
    command = SubmitOperation(
        actor=actor,
        org_id=node.org_id,
        project_id=node.project_id,
        operation_type=TYPE,
        version=VERSION,
        inputs={"task_id": task.task_id, "attempt_uid": task.attempt_uid},
        target_selector=TargetSelector(nodes=(node.node_id,)),
        idempotency_key=key or draft.ids.new("probe", draft.now_ms),
        correlation_id=correlation_id,
        trigger_source="admin",
        linked_allocation_id=node.allocation_id,
        linked_node_id=node.node_id,
    )
    operation, _ = place(draft, command, audited=False)
    return operation.operation_id


def answered(draft: Draft, probe: OperationRow, node_id: str) -> None:
    """A node's answer. An end that we have not heard of comes as the node's own report, told once more by the probe."""
    about = _about(probe)
    said = _said(draft, probe)
    task = draft.get(TaskRow, about.get("task_id", ""))
    if not said or task is None or task.node_id != node_id or task.attempt_uid != about.get("attempt_uid"):
        return
    node, state = node_of(draft, node_id), str(said.get("state"))[:32]
    operation = operation_of(draft, task.operation_id)
    if not _may_know(probe, operation):
        return
    draft.events.append(
        events.task_event(
            "task.probed",
            operation,
            task,
            draft.now_ms,
            found=state,
            was=task.state,
            container=str(said.get("container"))[:32],
            by_operation=probe.operation_id,
        )
    )
    if task.state in FINAL or not 0 < task.sequence <= cursor_of(draft, node_id).accepted_sequence:
        return
    if state == "unknown":
        message = f"node {node.name} took the task and knows nothing of it any more"
        give_up(draft, task, "interrupted_apply", message)
    elif state == "running" and task.state == ASSIGNED:
        move_task(draft, task, "start", accepted_at_ms=draft.now_ms, started_at_ms=draft.now_ms)


def _said(draft: Draft, probe: OperationRow) -> dict[str, Any]:
    """The outputs of a probe that succeeded; else nothing is known."""
    if probe.status != "succeeded":
        return {}
    for task in draft.tasks_of(probe.operation_id):
        step = draft.get(StepRow, (task.task_id, task.attempt_number, 0))
        if step is not None and step.outputs:
            found = msgspec.json.decode(step.outputs)
            return found if isinstance(found, dict) else {}
    return {}


def _may_know(probe: OperationRow, operation: OperationRow) -> bool:
    """A node tells a tenant that it knows nothing of others' tasks: no such answer ends one (S2)."""
    own = (probe.org_id, probe.project_id) == (operation.org_id, operation.project_id)
    return own or probe.trigger_source in ASKERS


def _about(probe: OperationRow) -> dict[str, str]:
    return msgspec.json.decode(probe.inputs, type=dict[str, str])


def _is_probe(draft: Draft, task: TaskRow) -> bool:
    return operation_of(draft, task.operation_id).operation_type == TYPE
