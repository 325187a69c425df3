"""Writing an overlay: it can only tighten, and what waits feels it at once (AZ-06, AZ-08, S3)."""

from typing import Any

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.errors import error
from hostler.base.ids import is_name
from hostler.catalog.policy import PolicyOverlay, check_overlay, weakened
from hostler.control.kernel import events
from hostler.control.kernel.assign import fill_waiting
from hostler.control.kernel.changes import Change
from hostler.control.kernel.commands import PutPolicy
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.policies import Effective, chain, effective, overlay_in
from hostler.control.kernel.policy_rows import ANY_TYPE, SCOPES, PolicyRow

_POOLS_AT_ONCE = 1000  # with waiting jobs; a look at one that a policy does not concern changes nothing


def put(draft: Draft, command: PutPolicy) -> Decision:
    """→ the new revision. Refuses what would weaken its parents, naming the key."""
    _check(command)
    key = (command.scope, command.scope_id, command.operation_type)
    known = draft.get(PolicyRow, key)
    revision = known.revision if known else 0
    if command.expected_revision not in (None, revision):
        raise error("policy_changed", f"the policy is at revision {revision}, not {command.expected_revision}")
    parent = _parent(draft, command)
    key_name = weakened(parent.policy, command.overlay)
    if key_name:
        raise error(
            "policy_weakens",
            f"{key_name} would allow more than {parent.set_by.get(key_name, 'the parent scope')} does",
            pointer=f"/{key_name}",
        )
    row = PolicyRow(
        scope=command.scope,
        scope_id=command.scope_id,
        operation_type=command.operation_type,
        overlay=canonical_json(_said(command.overlay)).decode(),
        revision=revision + 1,
        updated_by=command.actor.name,
        updated_at_ms=draft.now_ms,
    )
    (draft.update if known else draft.insert)(row)
    draft.events.append(
        events.admin_event(
            "policy.changed",
            resource_of(*key),
            draft.now_ms,
            actor=command.actor,
            action="policy.put",
            org_id=command.org_id,
            project_id=command.scope_id if command.scope == "project" else "",
            change=Change(_said(overlay_in(known)) if known else None, _said(command.overlay)),
            revision=row.revision,
        )
    )
    fill_waiting(draft, "" if command.operation_type == ANY_TYPE else command.operation_type)
    for pool in draft.view.pools_waiting(_POOLS_AT_ONCE):
        draft.look_at(*pool)
    return draft.decision(row.revision)


def resource_of(scope: str, scope_id: str, operation_type: str) -> str:
    """How the audit names an overlay."""
    where = f"{scope}s/{scope_id}/" if scope_id else ""
    return f"{where}operation-policies/{operation_type}"


def _said(overlay: PolicyOverlay) -> dict[str, Any]:
    """Only the keys about which it says something."""
    said: dict[str, Any] = {key: value for key, value in msgspec.to_builtins(overlay).items() if value is not None}
    return said


def _check(command: PutPolicy) -> None:
    if command.scope not in SCOPES or (command.scope == "global") != (not command.scope_id):
        raise error("invalid_request", f"there is no scope {command.scope!r}", pointer="/scope")
    if command.scope_id and not is_name(command.scope_id):
        raise error("invalid_request", f"{command.scope_id[:64]!r} cannot name a {command.scope}")
    type_ = command.operation_type
    if type_ != ANY_TYPE and not is_name(type_):
        raise error("invalid_request", f"{type_[:64]!r} is no operation type; '*' is every one")
    check_overlay(command.overlay)


def _parent(draft: Draft, command: PutPolicy) -> Effective:
    """What holds above the overlay: the scopes around it, and its own scope's `*` where it is about one type."""
    org_id = command.scope_id if command.scope == "tenant" else command.org_id
    project_id = command.scope_id if command.scope == "project" else ""
    levels = chain(draft.policies(), org_id if command.scope != "global" else "", project_id, command.operation_type)
    own = (command.scope, command.scope_id, command.operation_type)
    above = tuple(level for level in levels if (level.scope, level.scope_id, level.operation_type) != own)
    return effective(draft.settings.policy, above)
