"""A probe of a node outside any chain: nothing is left since its last baseline, or a first baseline (API-21, AL-11).

A node that nobody holds is cleared by a passed probe and quarantined by a failed one. A first baseline proves nothing
about what was there before: it makes the node `verified` as it stands, and ends no quarantine.
"""

from typing import Any

import msgspec

from hostler.base.codes import CODES
from hostler.control.kernel import events, quarantine
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.allocation_commands import ProbeNode
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import CLEANING, QUARANTINED
from hostler.control.kernel.chain_operations import inputs_for
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import NodeRow, OperationRow
from hostler.control.kernel.submit import place
from hostler.control.kernel.tasks import node_of
from hostler.control.kernel.transitions import FINAL

replace = msgspec.structs.replace
ENROLLED = "enrolled"  # the name of a node's own baseline; allocations have a prefix, so none is called that


def probe(draft: Draft, command: ProbeNode) -> Decision:
    """→ operation id."""
    node = node_of(draft, command.node_id)
    return draft.decision(start(draft, node, command.actor, command.correlation_id))


def start(draft: Draft, node: NodeRow, actor: Actor, correlation_id: str, *, audited: bool = True) -> str:
    """→ operation id of a comparison with the baseline, or of the node's first baseline."""
    limits = draft.settings.allocations
    against = node.allocation_id or node.baseline_of
    ref = limits.probe_profile if against else limits.baseline_profile
    held = draft.get(AllocationRow, node.allocation_id)
    given: dict[str, Any] = msgspec.json.decode(held.inputs) if held else {}
    operation_type, _, version = ref.rpartition("@")
    submit = SubmitOperation(
        actor=actor,
        org_id=node.org_id,
        project_id=node.project_id,
        operation_type=operation_type,
        version=version,
        inputs=inputs_for(draft, ref, against or ENROLLED, given),
        target_selector=TargetSelector(nodes=(node.node_id,)),
        idempotency_key=draft.ids.new("probe", draft.now_ms),
        correlation_id=correlation_id,
        trigger_source="admin",
        linked_allocation_id=node.allocation_id,
        linked_node_id=node.node_id,
    )
    operation, _ = place(draft, submit, action="node.probe", audited=audited)
    return operation.operation_id


def ended(draft: Draft, operation: OperationRow, node_id: str) -> None:
    """What a probe found counts for a node that nobody holds."""
    node = node_of(draft, node_id)
    if operation.status not in FINAL or node.allocation_id or node.state != "active":
        return
    if operation.operation_type == _type(draft.settings.allocations.baseline_profile):
        if operation.status == "succeeded":
            _has_baseline(draft, node, operation)
    elif operation.status == "succeeded" and node.health in (QUARANTINED, CLEANING):
        quarantine.lift(draft, node, f"passed probe {operation.operation_id}")
    elif operation.status == "failed" and _was_checked(operation) and node.pool and node.health != QUARANTINED:
        reason = f"probe {operation.operation_id}: {operation.error_code}"
        quarantine.after_failed_verification(draft, node, reason, operation.error_code)


def is_probe(draft: Draft, operation: OperationRow) -> bool:
    limits = draft.settings.allocations
    asked = operation.trigger_source == "admin" and not operation.linked_allocation_id
    # a verification that an administrator submits by hand on a free node counts as well
    return asked and operation.operation_type in {
        _type(ref) for ref in (limits.probe_profile, limits.baseline_profile, limits.verify_profile)
    }


def _has_baseline(draft: Draft, node: NodeRow, operation: OperationRow) -> None:
    known = replace(node, baseline_of=ENROLLED)
    draft.update(known)
    draft.freed[node.node_id] = None
    draft.events.append(
        events.node_event("node.baseline_taken", known, draft.now_ms, by_operation=operation.operation_id)
    )


def _was_checked(operation: OperationRow) -> bool:
    """Whether it failed over what it found; a refusal says nothing about the node."""
    return CODES[operation.error_code].family == "StepFailed" if operation.error_code in CODES else False


def _type(ref: str) -> str:
    return ref.rpartition("@")[0]
