"""What is signed: an operation's task, with the definition's steps as they stand in the signed catalog."""

import functools

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.catalog.definition import Definition
from hostler.catalog.used_profiles import profile_of
from hostler.control.kernel.orders import CancelOrder, TaskOrder
from hostler.control.kernel.rows import AttemptRow, CatalogRow, DefinitionRow, OperationRow, TaskRow
from hostler.wire.task import CancelSpec, Policy, ReusedStep, StepSpec, TaskMode, TaskSpec


class Shared(msgspec.Struct, frozen=True):
    """What all tasks of one operation have in common, worked out once."""

    operation: OperationRow
    steps: tuple[StepSpec, ...]
    catalog_version: int
    inputs: bytes
    inputs_digest: str
    policy: Policy
    timeout_seconds: int
    mode: TaskMode


def share(operation: OperationRow, definition: DefinitionRow, catalog: CatalogRow) -> Shared:
    document, steps = _steps(definition.document, catalog.commands)
    policy = msgspec.json.decode(operation.policy, type=Policy)
    inputs = operation.inputs.encode()
    limits = [limit for limit in (document.timeout_seconds, policy.timeout_seconds) if limit]
    return Shared(
        operation,
        steps,
        catalog.version,
        inputs,
        sha256_hex(inputs),
        policy,
        min(limits, default=0),
        TaskMode(operation.mode),
    )


@functools.lru_cache(maxsize=256)
def _steps(document: str, commands: str) -> tuple[Definition, tuple[StepSpec, ...]]:
    """What the present catalog makes of a definition. If it has dropped a profile, the node refuses."""
    definition = msgspec.json.decode(document, type=Definition)
    digests: dict[str, str] = msgspec.json.decode(commands)
    steps = []
    for step in definition.steps:
        profile = profile_of(step)
        steps.append(
            StepSpec(
                step.id,
                step.kind,
                canonical_json(step.params),
                step.timeout_seconds,
                step.reusable,
                profile,
                digests.get(profile, ""),
            )
        )
    return definition, tuple(steps)


def build_task(order: TaskOrder, shared: Shared, task: TaskRow, attempt: AttemptRow, epoch: int) -> TaskSpec:
    operation, node = shared.operation, order.node
    reused = msgspec.msgpack.decode(attempt.reused, type=tuple[ReusedStep, ...]) if attempt.reused else ()
    return TaskSpec(
        task_id=task.task_id,
        operation_id=operation.operation_id,
        node_id=node.node_id,
        node_key_thumbprint=node.thumbprint,
        operation_type=operation.operation_type,
        version=operation.version,
        definition_digest=operation.definition_digest,
        catalog_version=shared.catalog_version,
        org_id=operation.org_id,
        project_id=operation.project_id,
        allocation_id=operation.linked_allocation_id or "",
        attempt_number=attempt.attempt_number,
        attempt_uid=attempt.attempt_uid,
        replica_index=task.replica_index,
        sequence=order.sequence,
        nonce=order.nonce,
        not_before_ms=order.not_before_ms,
        expires_at_ms=order.expires_at_ms,
        steps=shared.steps,
        inputs_json=shared.inputs,
        inputs_digest=shared.inputs_digest,
        policy=shared.policy,
        policy_digest=operation.policy_digest,
        control_epoch=epoch,
        correlation_id=operation.correlation_id,
        traceparent=operation.traceparent,
        mode=shared.mode,
        approved_plan_digest=task.approved_plan_digest,
        reused=reused,
        timeout_seconds=shared.timeout_seconds,
        trigger_source=_trigger(operation),
    )


def _trigger(operation: OperationRow) -> str:
    """Empty for a tenant's, so that a node tells it from an allocation's own work and from its operators'."""
    return "" if operation.trigger_source == "tenant_request" else operation.trigger_source


def build_cancel(order: CancelOrder, operation: OperationRow, task: TaskRow, epoch: int) -> CancelSpec:
    return CancelSpec(
        task_id=task.task_id,
        operation_id=task.operation_id,
        node_id=order.node.node_id,
        node_key_thumbprint=order.node.thumbprint,
        sequence=order.sequence,
        nonce=order.nonce,
        not_before_ms=order.not_before_ms,
        expires_at_ms=order.expires_at_ms,
        control_epoch=epoch,
        correlation_id=operation.correlation_id,
        attempt_uid=order.attempt_uid or task.attempt_uid,
    )
