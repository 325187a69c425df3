"""The operations that a chain asks for: of the tenant's project, on one node, by the kernel alone (AL-01, AL-10)."""

from typing import Any

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.kernel import allocation_events as told
from hostler.control.kernel.actor import KERNEL
from hostler.control.kernel.allocation_rows import AllocationRow, LeaseRow, LinkRow
from hostler.control.kernel.allocation_settings import PROVISION
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import DefinitionRow, OperationRow
from hostler.control.kernel.submit import OWN_KEYS, place
from hostler.control.kernel.transitions import FINAL

replace = msgspec.structs.replace
ALLOCATION_INPUT = "allocation_id"  # every link's definition may ask for it


def place_link(draft: Draft, allocation: AllocationRow, link: LinkRow) -> str:
    """→ the operation's id. Raises what a submit of the link's profile is refused with."""
    trigger = "allocation_provision" if link.link == PROVISION else "allocation_release"
    key = f"{OWN_KEYS}{allocation.allocation_id}.{link.node_id}.{link.link}.{link.tries}"
    return _place(draft, allocation, link.node_id, link.ref, trigger, key)


def forced_revoke(draft: Draft, allocation: AllocationRow, lease: LeaseRow, link: LinkRow) -> None:
    """Ends the tenant's access although the chain is broken: an operation of its own, with its own audit line."""
    last = draft.get(OperationRow, lease.revoke_operation_id)
    if last is not None and (last.status not in FINAL or last.status == "succeeded"):
        return
    ref = draft.settings.allocations.revoke_profile
    key = f"{OWN_KEYS}{allocation.allocation_id}.{lease.node_id}.forced.{link.link}.{link.tries}"
    operation_id, refusal = "", None
    try:
        operation_id = _place(draft, allocation, lease.node_id, ref, "system", key)
    except HostlerError as err:
        refusal = err
    draft.update(replace(lease, revoke_operation_id=operation_id))
    told.forced_revoke(draft, allocation, lease.node_id, operation_id, link, refusal)


def _place(draft: Draft, allocation: AllocationRow, node_id: str, ref: str, trigger: str, key: str) -> str:
    operation_type, _, version = ref.rpartition("@")
    command = SubmitOperation(
        actor=KERNEL,
        org_id=allocation.org_id,
        project_id=allocation.project_id,
        operation_type=operation_type,
        version=version,
        inputs=inputs_for(draft, ref, allocation.allocation_id, msgspec.json.decode(allocation.inputs)),
        target_selector=TargetSelector(nodes=(node_id,)),
        idempotency_key=key,
        correlation_id=allocation.correlation_id,
        trigger_source=trigger,
        linked_allocation_id=allocation.allocation_id,
        linked_node_id=node_id,
    )
    operation, _ = place(draft, command, audited=False)
    return operation.operation_id


def inputs_for(draft: Draft, ref: str, allocation_id: str, given: dict[str, Any]) -> dict[str, Any]:
    """What of the allocation's inputs the definition asks for, by name.

    Raises:
        HostlerError: `unknown_definition`.
    """
    row = draft.get(DefinitionRow, ref)
    if row is None:
        raise error("unknown_definition", f"no operation {ref} is registered", hint="publish the allocation profiles")
    asked = definition_of(row.document).inputs.get("properties", {})
    known = given | {ALLOCATION_INPUT: allocation_id}
    return {name: value for name, value in known.items() if name in asked}
