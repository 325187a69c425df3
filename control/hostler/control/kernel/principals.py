"""People and programs with a bearer token; only the token's hash is known."""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.base.ids import is_name
from hostler.control.kernel import events
from hostler.control.kernel.changes import Change, gone, made
from hostler.control.kernel.commands import CreatePrincipal, RevokePrincipal
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import PrincipalRow

replace = msgspec.structs.replace
ROLES = ("platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer", "auditor")


def create(draft: Draft, command: CreatePrincipal) -> Decision:
    if not is_name(command.name):
        raise error("invalid_request", f"{command.name!r} cannot name a principal", pointer="/name")
    _check_scope(command)
    known = draft.get(PrincipalRow, command.name)
    if known is not None and known.state == "active":
        raise error("principal_exists", f"a principal named {command.name} exists")
    row = PrincipalRow(
        name=command.name,
        token_sha256=command.token_sha256,
        role=command.role,
        org_id=command.org_id,
        project_id=command.project_id,
        expires_at_ms=command.expires_at_ms,
        created_at_ms=draft.now_ms,
    )
    if known is None:
        draft.insert(row)
    else:
        draft.update(row)
    draft.events.append(
        events.admin_event(
            "principal.created",
            f"principals/{command.name}",
            draft.now_ms,
            actor=command.actor,
            action="principal.create",
            change=made(**_said(row)) if known is None else Change(_said(known), _said(row)),
            org_id=command.org_id,
            project_id=command.project_id,
            role=command.role,
        )
    )
    return draft.decision()


def _said(row: PrincipalRow) -> dict[str, Any]:
    """What the audit says of it; of its token not even the hash."""
    return {"role": row.role, "state": row.state, "expires_at_ms": row.expires_at_ms}


def _check_scope(command: CreatePrincipal) -> None:
    """A role has the scope it is about, no wider and no narrower."""
    if command.role not in ROLES:
        raise error("invalid_request", f"role {command.role!r} does not exist", pointer="/role")
    wants_org = command.role not in ("platform_admin", "auditor")
    wants_project = command.role.startswith("project_")
    if bool(command.org_id) != wants_org or bool(command.project_id) != wants_project:
        raise error("invalid_request", f"role {command.role} has another scope", pointer="/org_id")


def revoke(draft: Draft, command: RevokePrincipal) -> Decision:
    known = draft.get(PrincipalRow, command.name)
    if known is None:
        raise error("not_found", f"there is no principal {command.name}")
    if known.state == "active":
        draft.update(replace(known, state="revoked"))
        draft.events.append(
            events.admin_event(
                "principal.revoked",
                f"principals/{command.name}",
                draft.now_ms,
                actor=command.actor,
                action="principal.revoke",
                change=gone(**_said(known)),
                org_id=known.org_id,
                project_id=known.project_id,
            )
        )
    return draft.decision()
