"""Allocations: a tenant's hold on nodes, moved by decisions alone (AL-01..03, API-22)."""

from typing import Any

import msgspec

from hostler.base.digest import canonical_json, digest_of
from hostler.base.errors import error
from hostler.catalog.inputs import check_inputs, refuse_secrets, with_defaults
from hostler.control.kernel import allocation_events as told
from hostler.control.kernel import chain, permitted, policies
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.allocation_commands import (
    AllocationCreated,
    CreateAllocation,
    ForceReleaseAllocation,
    ReleaseAllocation,
    RetryAllocation,
)
from hostler.control.kernel.allocation_flow import allocation_of, move, settle_all, try_place
from hostler.control.kernel.allocation_queue import older_claims
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_settings import LINK_ORDER
from hostler.control.kernel.allocation_states import (
    ACTIVE,
    FAILED,
    L_ACTIVE,
    L_PROVISIONING,
    LEASE_STUCK,
    POOL,
    PROVISIONING,
    RELEASED,
    RELEASING,
    REQUESTED,
)
from hostler.control.kernel.cancel import cancel_open_tasks
from hostler.control.kernel.chain_operations import inputs_for
from hostler.control.kernel.changes import Change, made
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.events import json_text
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import DefinitionRow
from hostler.control.kernel.submit import ASKED
from hostler.control.kernel.tasks import operation_of
from hostler.control.kernel.transitions import FINAL

replace = msgspec.structs.replace
ALLOCATION_PREFIX = "alc"
MAX_NODES = 1000
MAX_EXTERNAL = 200


# -- asking ---------------------------------------------------------------------------------------


def create(draft: Draft, command: CreateAllocation) -> Decision:
    """→ `AllocationCreated`. Gets its nodes now, or waits for them."""
    digest = _digest(command)
    earlier = _earlier(draft, command, digest)
    if earlier is not None:
        return draft.decision(earlier)
    ref = _profile(draft, command)
    _check(command)
    refs = [draft.settings.allocations.ref(link, ref) for link in LINK_ORDER]
    _ask_outside(draft, command, ref)
    taken = set[str]().union(*(_check_inputs(draft, each, command) for each in refs))
    for name in sorted(set(command.inputs) - taken):
        raise error("input_schema", f"no link of {ref} has an input {name!r}", pointer=f"/inputs/{name}")
    allocation = AllocationRow(
        allocation_id=draft.ids.new(ALLOCATION_PREFIX, draft.now_ms),
        org_id=command.org_id,
        project_id=command.project_id,
        external_id=command.external_id,
        request_digest=digest,
        requested_by=command.actor.name,
        correlation_id=command.correlation_id,
        labels=json_text(command.labels),
        nodes=json_text(command.nodes),
        node_count=command.node_count,
        inputs=canonical_json(command.inputs).decode(),
        provision_ref=ref,
        created_at_ms=draft.now_ms,
        deadline_ms=draft.now_ms + draft.settings.allocations.wait_ms,
    )
    draft.insert(allocation)
    told.said(
        draft,
        allocation,
        "allocation.requested",
        actor=command.actor,
        action="allocation.create",
        change=made(state=allocation.state, node_count=command.node_count, profile=ref),
        nodes=command.node_count,
        external_id=command.external_id,
    )
    try_place(draft, allocation, older_claims(draft, allocation))
    settle_all(draft)
    state = allocation_of(draft, allocation.allocation_id).state
    return draft.decision(AllocationCreated(allocation.allocation_id, True, state))


def question_of(draft: Draft, command: CreateAllocation) -> permitted.Question | None:
    """What an engine outside is to be asked; None where the request was answered before."""
    if _earlier(draft, command, _digest(command)) is not None:
        return None
    return _question(draft, command, _profile(draft, command))


def _question(draft: Draft, command: CreateAllocation, ref: str) -> permitted.Question:
    operation_type, _, version = ref.rpartition("@")
    return permitted.Question(
        asks_for="allocation",
        actor=command.actor.name,
        role=command.actor.role,
        inputs=command.inputs,
        targets={"node_count": command.node_count, "labels": command.labels, "nodes": list(command.nodes)},
        operation_type=operation_type,
        version=version,
        org_id=command.org_id,
        project_id=command.project_id,
        trigger_source=ASKED,
        target_kinds=(),
        sources={},
        definition_sources=None,
        policy=policies.of_operation(draft, "", "", operation_type).policy,
    )


def _ask_outside(draft: Draft, command: CreateAllocation, ref: str) -> None:
    """What provisions it is checked against the policy when it is placed; here an engine outside has its say."""
    if draft.settings.asks_outside:
        refusal = permitted.refused(_question(draft, command, ref), command.answer or permitted.Unasked())
        if refusal is not None:
            raise refusal


def _digest(command: CreateAllocation) -> str:
    return digest_of(
        {
            "nodes": [command.node_count, list(command.nodes), command.labels],
            "inputs": command.inputs,
            "profile": command.profile,
        }
    )


def _earlier(draft: Draft, command: CreateAllocation, digest: str) -> AllocationCreated | None:
    if not command.external_id:
        return None
    found = draft.view.allocation_by_external(command.org_id, command.project_id, command.external_id)
    if found is None:
        return None
    if found.request_digest != digest:
        raise error(
            "idempotency_mismatch",
            f"external id {command.external_id!r} belongs to allocation {found.allocation_id}, "
            "which was asked for differently",
        )
    return AllocationCreated(found.allocation_id, False, found.state)


def _check(command: CreateAllocation) -> None:
    if not 1 <= command.node_count <= MAX_NODES:
        raise error("invalid_request", f"an allocation has 1 to {MAX_NODES} nodes", pointer="/node_count")
    if len(command.external_id) > MAX_EXTERNAL:
        raise error("invalid_request", f"external_id is longer than {MAX_EXTERNAL}", pointer="/external_id")
    if command.nodes and command.actor.role != "platform_admin":
        raise error("scope_denied", "only a platform_admin names the nodes of an allocation")
    if not command.org_id or command.project_id == POOL:
        raise error("invalid_request", "an allocation belongs to a tenant and a project", pointer="/org_id")
    refuse_secrets(command.inputs)


def _profile(draft: Draft, command: CreateAllocation) -> str:
    allowed = draft.settings.allocations.provision_profiles
    if command.profile and command.profile not in allowed:
        raise error("unknown_definition", f"{command.profile} provisions no allocation here", pointer="/profile")
    registered = (ref for ref in allowed if draft.get(DefinitionRow, ref) is not None)
    return command.profile or next(registered, allowed[0])


def _check_inputs(draft: Draft, ref: str, command: CreateAllocation) -> set[str]:
    """Of every link now, so that a release cannot fail over what was asked for at the start. → names it takes."""
    inputs = inputs_for(draft, ref, "alc_", command.inputs)
    row = draft.get(DefinitionRow, ref)
    assert row is not None
    if row.state == "retired":
        raise error("definition_retired", f"{ref} is retired")
    definition = definition_of(row.document)
    check_inputs(definition.inputs, with_defaults(definition.inputs, inputs))
    return set(definition.inputs.get("properties", {}))


# -- ending ---------------------------------------------------------------------------------------


def release(draft: Draft, command: ReleaseAllocation) -> Decision:
    """→ its state. Asked again, it says how far it is."""
    allocation = own(draft, command.actor, command.project_id, command.allocation_id)
    if allocation.state in (RELEASING, RELEASED):
        return draft.decision(allocation.state)
    if allocation.state == FAILED:
        raise error(
            "allocation_state",
            f"allocation {allocation.allocation_id} has failed; its nodes are cleaned or in quarantine",
            hint="'hostler allocations show' says which; 'retry' tries failed links again",
        )
    _release(draft, allocation, command.actor, "allocation.release")
    settle_all(draft)
    return draft.decision(allocation_of(draft, allocation.allocation_id).state)


def _release(draft: Draft, allocation: AllocationRow, actor: Actor, action: str, **body: Any) -> None:
    held = allocation
    allocation = move(draft, allocation, "release", release_requested_ms=draft.now_ms)
    type_ = "allocation.releasing" if allocation.state == "releasing" else f"allocation.{allocation.state}"
    change = Change({"state": held.state}, {"state": allocation.state})
    told.said(draft, allocation, type_, actor=actor, action=action, change=change, **body)
    _end_tenant_operations(draft, allocation)
    for lease in chain.leases_of(draft, allocation.allocation_id):
        if lease.state in (L_PROVISIONING, L_ACTIVE):
            chain.begin_release(draft, allocation, lease)
    draft.moved[allocation.allocation_id] = None


def _end_tenant_operations(draft: Draft, allocation: AllocationRow) -> None:
    """Queued tasks end here; running ones are told to. The chain's own go on."""
    for operation in draft.current(draft.view.open_operations_of(allocation.allocation_id)):
        if operation.trigger_source == "tenant_request" and operation.status not in FINAL:
            draft.update(replace(operation, cancel_requested_ms=operation.cancel_requested_ms or draft.now_ms))
            cancel_open_tasks(draft, operation_of(draft, operation.operation_id))


def force_release(draft: Draft, command: ForceReleaseAllocation) -> Decision:
    """→ its state. By an administrator, from whatever state: releases, and tries failed links again (AL-09)."""
    allocation = allocation_of(draft, command.allocation_id)
    if allocation.state == RELEASED:
        return draft.decision(allocation.state)
    reason = command.reason[:500]
    if allocation.state in (REQUESTED, PROVISIONING, ACTIVE):
        _release(draft, allocation, command.actor, "allocation.force_release", reason=reason, operations=[])
    else:
        _again(draft, allocation, command.actor, "allocation.force_release", reason=reason)
    settle_all(draft)
    return draft.decision(allocation_of(draft, allocation.allocation_id).state)


def retry(draft: Draft, command: RetryAllocation) -> Decision:
    """→ its state. Every link that failed, from where it failed (AL-09)."""
    allocation = own(draft, command.actor, command.project_id, command.allocation_id)
    leases = chain.leases_of(draft, allocation.allocation_id)
    if not any(lease.state in LEASE_STUCK for lease in leases):
        raise error("allocation_state", f"no link of allocation {allocation.allocation_id} has failed")
    _again(draft, allocation, command.actor, "allocation.retry")
    settle_all(draft)
    return draft.decision(allocation_of(draft, allocation.allocation_id).state)


def _again(draft: Draft, allocation: AllocationRow, actor: Actor, action: str, **body: Any) -> None:
    stuck = [lease for lease in chain.leases_of(draft, allocation.allocation_id) if lease.state in LEASE_STUCK]
    before = {"state": allocation.state, "stuck_nodes": [lease.node_id for lease in stuck]}
    if allocation.state == FAILED and stuck:
        allocation = move(draft, allocation, "retry", error_code="", error_message="")
    originals = [chain.again(draft, allocation, lease) for lease in stuck]
    body["operations"] = [operation_id for operation_id in originals if operation_id]
    change = Change(before, {"state": allocation.state, "stuck_nodes": []})
    told.said(draft, allocation, "allocation.retried", actor=actor, action=action, change=change, **body)
    draft.moved[allocation.allocation_id] = None


def own(draft: Draft, actor: Actor, project_id: str, allocation_id: str) -> AllocationRow:
    """The allocation, if it is of the actor's project; else it does not exist for them (S2)."""
    allocation = draft.get(AllocationRow, allocation_id)
    foreign = allocation is not None and (
        allocation.project_id != project_id or (actor.org_id and actor.org_id != allocation.org_id)
    )
    if allocation is None or foreign:
        raise error("not_found", f"there is no allocation {allocation_id} in project {project_id}")
    return allocation
