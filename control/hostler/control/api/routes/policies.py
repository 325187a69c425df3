"""Policy overlays at global, tenant and project scope (API-05, API-06, AZ-06, AZ-07)."""

from hostler.base.errors import error
from hostler.catalog.policy import PolicyOverlay
from hostler.control.api.authz import is_unlimited
from hostler.control.api.bodies import PolicyView
from hostler.control.api.call import Call
from hostler.control.kernel.commands import PutPolicy
from hostler.control.kernel.policies import chain, effective, overlay_in
from hostler.control.kernel.policy_rows import ANY_TYPE


async def get_global(call: Call) -> PolicyView:
    return await _view(call, "global", "", "")


async def put_global(call: Call) -> PolicyView:
    return await _put(call, "global", "", "")


async def get_tenant(call: Call) -> PolicyView:
    tenant_id = _tenant(call)
    return await _view(call, "tenant", tenant_id, tenant_id)


async def put_tenant(call: Call) -> PolicyView:
    tenant_id = _tenant(call)
    return await _put(call, "tenant", tenant_id, tenant_id)


async def get_project(call: Call) -> PolicyView:
    project_id = await call.project()
    return await _view(call, "project", project_id, await _org_of(call, project_id))


async def put_project(call: Call) -> PolicyView:
    project_id = await call.project()
    return await _put(call, "project", project_id, await _org_of(call, project_id))


def _tenant(call: Call) -> str:
    """The tenant in the path, if the caller belongs to it. Raises `not_found`."""
    tenant_id = call.path("tenant_id")
    if not is_unlimited(call.principal) and call.principal.org_id != tenant_id:
        raise error("not_found", f"there is no tenant {tenant_id!r} in your scope")
    return tenant_id


async def _org_of(call: Call, project_id: str) -> str:
    return call.principal.org_id or await call.parts.projects.org_of(project_id)


async def _put(call: Call, scope: str, scope_id: str, org_id: str) -> PolicyView:
    command = PutPolicy(
        actor=call.principal.actor(),
        scope=scope,
        scope_id=scope_id,
        org_id=org_id,
        operation_type=call.path("operation_type"),
        overlay=await call.body(PolicyOverlay),
        expected_revision=_expected(call),
    )
    await call.execute(command)
    return await _view(call, scope, scope_id, org_id)


def _expected(call: Call) -> int | None:
    """What If-Match asks for: the revision that was read before."""
    given = call.request.headers.get("if-match", "").strip().strip('"')
    if not given:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise error("invalid_request", "If-Match takes the revision that was read, such as 3")
    return int(given)


async def _view(call: Call, scope: str, scope_id: str, org_id: str) -> PolicyView:
    """An overlay, and what the whole chain down to it comes to."""
    operation_type = call.path("operation_type")
    rows = await call.engine.reader.policies(org_id, scope_id if scope == "project" else "")
    levels = chain(rows, org_id, scope_id if scope == "project" else "", operation_type)
    made = effective(call.engine.policy, levels)
    row = rows.get((scope, scope_id, operation_type))
    return PolicyView(
        scope=scope,
        scope_id=scope_id,
        operation_type=operation_type,
        overlay=overlay_in(row) if row else PolicyOverlay(),
        revision=row.revision if row else 0,
        updated_by=row.updated_by if row else "",
        updated_at_ms=row.updated_at_ms if row else 0,
        effective=made.policy,
        set_by=made.set_by,
        applies_to_every_type=operation_type == ANY_TYPE,
        asked_besides=call.engine.outside.query if call.engine.outside else "",
    )
