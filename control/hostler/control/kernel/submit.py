"""Submitting an operation: everything is checked before anything is stored (OP-02)."""

from typing import Any

import msgspec

from hostler.base.digest import canonical_json, digest_of
from hostler.base.errors import error
from hostler.base.ids import ATTEMPT, OPERATION, TASK
from hostler.catalog.definition import Definition
from hostler.catalog.inputs import check_inputs, refuse_secrets, with_defaults
from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel import events, permitted, policies, targets
from hostler.control.kernel.assign import fill
from hostler.control.kernel.changes import made
from hostler.control.kernel.commands import OperationCreated, SubmitOperation
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import AttemptRow, DefinitionRow, NodeRow, OperationRow, TaskRow
from hostler.wire.task import Policy, TaskMode

TRIGGER_SOURCES = (
    "allocation_provision",
    "allocation_release",
    "admin",
    "tenant_request",
    "agent_lifecycle",
    "federation",
    "system",
)
# what the audit calls those that have a route of their own (SE-02)
_ACTIONS = {"job.task.exec": "job.exec", "job.task.profile": "job.profile", "job.task.forward": "endpoint.proxy"}
OWN_KEYS = "/"  # how idempotency keys begin that the control plane makes; nobody else may take one before it does
AGENT_KINDS = "agent.upgrade."  # how the kinds of steps begin that change the agent itself
PLATFORM = "platform_admin"
ASKED = "tenant_request"  # an engine outside has no say in what the house does for itself


def submit(draft: Draft, command: SubmitOperation) -> Decision:
    """→ `OperationCreated`. The same key and body give the same operation (RT-01)."""
    if draft.settings.jobs.is_job(command.operation_type):
        hint = "submit a job instead: its name, its place and its namespace are the control plane's to give"
        raise error("invalid_request", f"{command.operation_type} is what jobs are made of", hint=hint)
    command = _linked(command)
    earlier = _earlier(draft, command, request_digest(command))
    if earlier is not None:
        return draft.decision(earlier)
    operation, row = place(draft, command, _ACTIONS.get(command.operation_type, "operation.submit"))
    is_deprecated = row.state == "deprecated"
    note = row.deprecation_note if is_deprecated else ""
    return draft.decision(OperationCreated(operation.operation_id, True, is_deprecated, note))


def _linked(command: SubmitOperation) -> SubmitOperation:
    if not command.target_selector.allocation:
        return command
    return msgspec.structs.replace(command, linked_allocation_id=command.target_selector.allocation)


def place(
    draft: Draft,
    command: SubmitOperation,
    action: str = "operation.submit",
    *,
    audited: bool = True,
    unplaced: bool = False,
) -> tuple[OperationRow, DefinitionRow]:
    """Checks, stores and sends an operation.

    Args:
        audited: False where the decision that asks for it is in the audit already.
        unplaced: a job's: the nodes of its tasks are chosen later.
    """
    row = draft.get(DefinitionRow, f"{command.operation_type}@{command.version}")
    definition = _usable(row, command)
    inputs = _inputs(definition, command)
    policy = _policy(draft, command)
    question = _question(command, definition, inputs, policy.policy)
    if draft.settings.asks_outside and command.trigger_source == ASKED:
        permitted.check(question, command.answer or permitted.Unasked())
    else:
        permitted.check(question)
    nodes = [] if unplaced else targets.select(draft, command)
    _check_plans(command, nodes, definition)
    assert row is not None
    tasks = (1 if unplaced else len(nodes)) * command.target_selector.replicas
    operation = _operation(draft, command, row, inputs, request_digest(command), tasks, policy)
    draft.insert(operation)
    draft.events.append(
        events.operation_event(
            events.REQUESTED,
            operation,
            draft.now_ms,
            actor=command.actor,
            action=action if audited else "",
            result="accepted" if audited else "",
            change=made(ref=f"{row.operation_type}@{row.version}", status=operation.status, tasks=tasks),
            version=command.version,
            mode=command.mode,
            tasks=operation.tasks_total,
            definition_state=row.state,
            correlation_id=command.correlation_id,
        )
    )
    _add_tasks(draft, command, operation, [node.node_id for node in nodes] or [""])
    fill(draft, operation.operation_id)
    return operation, row


def question_of(draft: Draft, command: SubmitOperation) -> permitted.Question | None:
    """What an engine outside is to be asked; None where the request was answered before."""
    command = _linked(command)
    if _earlier(draft, command, request_digest(command)) is not None:
        return None
    definition = _usable(draft.get(DefinitionRow, f"{command.operation_type}@{command.version}"), command)
    return _question(command, definition, _inputs(definition, command), _policy(draft, command).policy)


def _policy(draft: Draft, command: SubmitOperation) -> policies.Effective:
    policy = policies.of_operation(
        draft, command.org_id, command.project_id, command.operation_type, command.trigger_source
    )
    return policies.tightened(policy, command.limits)


def request_digest(command: SubmitOperation) -> str:
    """What makes two requests the same: everything that shapes the work, not who traced it how."""
    targets: dict[str, Any] = msgspec.to_builtins(command.target_selector)
    if not command.target_selector.allocation:
        del targets["allocation"]  # requests from before there were allocations stay the same
    return digest_of(
        {
            "operation": [command.operation_type, command.version],
            "inputs": command.inputs,
            "targets": targets,
            "mode": command.mode,
            "approved_plans": command.approved_plans,
            "linked": [command.trigger_source, command.linked_allocation_id, command.linked_node_id],
        }
        | _asked_besides(command)
    )


def _asked_besides(command: SubmitOperation) -> dict[str, Any]:
    """What came later is part of the request only where it says something: digests of old requests stay."""
    besides: dict[str, Any] = {}
    if command.require_plan_approval:
        besides["require_plan_approval"] = True
    if command.limits != PolicyOverlay():
        besides["limits"] = msgspec.to_builtins(command.limits)
    return besides


def _earlier(draft: Draft, command: SubmitOperation, digest: str) -> OperationCreated | None:
    key = command.idempotency_key
    if not 1 <= len(key) <= 255:
        raise error("invalid_request", "an idempotency key has 1 to 255 characters", pointer="/idempotency_key")
    found = draft.view.operation_by_key(command.org_id, command.project_id, key)
    if found is None:
        return None
    if found.request_digest != digest:
        raise error(
            "idempotency_mismatch",
            f"key {key!r} belongs to operation {found.operation_id}, which was asked for differently",
            operation_id=found.operation_id,
        )
    return OperationCreated(found.operation_id, False)


def _usable(row: DefinitionRow | None, command: SubmitOperation) -> Definition:
    ref = f"{command.operation_type}@{command.version}"
    if row is None:
        raise error("unknown_definition", f"no operation {ref} is registered", pointer="/operation_type")
    if row.state == "retired":
        raise error("definition_retired", f"{ref} is retired")
    if row.backend_type != "node_agent":
        raise error("backend_not_implemented", f"{ref} needs a {row.backend_type}, and none is present")
    if command.trigger_source not in TRIGGER_SOURCES:
        raise error("invalid_request", f"trigger source {command.trigger_source!r} does not exist")
    if command.target_selector.replicas < 1:
        raise error("invalid_request", "at least one replica is needed", pointer="/target_selector/replicas")
    definition = definition_of(row.document)
    changes_agents = any(step.kind.startswith(AGENT_KINDS) for step in definition.steps)
    if changes_agents and command.trigger_source == ASKED and command.actor.role != PLATFORM:
        raise error("scope_denied", f"{ref} changes the node's agent, which is for platform administrators to do")
    return definition


def _inputs(definition: Definition, command: SubmitOperation) -> dict[str, Any]:
    refuse_secrets(command.inputs)
    inputs = with_defaults(definition.inputs, command.inputs)
    check_inputs(definition.inputs, inputs)
    return inputs


def _question(
    command: SubmitOperation, definition: Definition, inputs: dict[str, Any], policy: Policy
) -> permitted.Question:
    return permitted.Question(
        actor=command.actor.name,
        role=command.actor.role,
        mode=str(command.mode),
        inputs=inputs,
        targets=msgspec.to_builtins(command.target_selector),
        operation_type=command.operation_type,
        version=command.version,
        org_id=command.org_id,
        project_id=command.project_id,
        trigger_source=command.trigger_source,
        target_kinds=targets.kinds_of(command.target_selector),
        sources=permitted.sources_of(definition, inputs),
        definition_sources=definition.artifacts.allowed_sources,
        policy=policy,
    )


def _check_plans(command: SubmitOperation, nodes: list[NodeRow], definition: Definition) -> None:
    """An approval covers every node or the operation is not sent at all."""
    if not command.approved_plans:
        required = command.require_plan_approval or definition.require_plan_approval
        if required and command.mode == TaskMode.APPLY:
            raise error(
                "plan_approval_required",
                f"{definition.ref} runs only by an approved plan of each node",
                pointer="/approved_plans",
            )
        return
    chosen = {node.node_id for node in nodes}
    if chosen != set(command.approved_plans):
        missing = min(chosen ^ set(command.approved_plans))
        raise error(
            "invalid_request",
            f"plans were approved for other nodes than the targets, such as {missing}",
            pointer="/approved_plans",
        )


def _operation(
    draft: Draft,
    command: SubmitOperation,
    row: DefinitionRow,
    inputs: dict[str, Any],
    digest: str,
    tasks: int,
    policy: policies.Effective,
) -> OperationRow:
    if tasks > draft.settings.max_tasks:
        raise error("too_large", f"{tasks} tasks are more than {draft.settings.max_tasks} in one operation")
    settings = draft.settings
    return OperationRow(
        operation_id=draft.ids.new(OPERATION, draft.now_ms),
        operation_type=row.operation_type,
        version=row.version,
        definition_digest=row.digest,
        backend_type=row.backend_type,
        org_id=command.org_id,
        project_id=command.project_id,
        requested_by_user_id=command.actor.name,
        target_selector=events.json_text(command.target_selector),
        inputs=canonical_json(inputs).decode(),
        idempotency_key=command.idempotency_key,
        request_digest=digest,
        correlation_id=command.correlation_id,
        traceparent=command.traceparent,
        mode=str(command.mode),
        trigger_source=command.trigger_source,
        linked_allocation_id=command.linked_allocation_id or None,
        linked_node_id=command.linked_node_id or None,
        policy=events.json_text(policy.policy),
        policy_digest=policy.digest,
        total_steps=row.total_steps,
        tasks_total=tasks,
        tasks_queued=tasks,
        created_at_ms=draft.now_ms,
        deadline_ms=draft.now_ms + settings.start_within_ms,
    )


def _add_tasks(draft: Draft, command: SubmitOperation, operation: OperationRow, nodes: list[str]) -> None:
    """One task for each node and replica, each with its first attempt (OP-10, DM-16)."""
    new, now_ms = draft.ids.new, draft.now_ms
    for replica in range(command.target_selector.replicas):
        for node_id in nodes:
            task = TaskRow(
                task_id=new(TASK, now_ms),
                operation_id=operation.operation_id,
                node_id=node_id,
                replica_index=replica,
                approved_plan_digest=command.approved_plans.get(node_id, ""),
                created_at_ms=now_ms,
                attempt_uid=new(ATTEMPT, now_ms),
            )
            draft.insert(task)
            draft.insert(
                AttemptRow(
                    attempt_uid=task.attempt_uid,
                    task_id=task.task_id,
                    attempt_number=1,
                    node_id=node_id,
                    created_at_ms=now_ms,
                )
            )
