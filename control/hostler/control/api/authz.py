"""Route → permission → roles. Default deny: a route without a row does not answer (AZ-01..05, AZ-10)."""

from hostler.base.errors import error
from hostler.control.api.principal import Caller

PLATFORM, TENANT, ADMIN, MEMBER, VIEWER, AUDITOR = (
    "platform_admin",
    "tenant_admin",
    "project_admin",
    "project_member",
    "project_viewer",
    "auditor",
)
ROLES = (PLATFORM, TENANT, ADMIN, MEMBER, VIEWER, AUDITOR)
_WRITE = frozenset({PLATFORM, TENANT, ADMIN, MEMBER})
_READ = frozenset({PLATFORM, TENANT, ADMIN, MEMBER, VIEWER})

INSIDE_TASKS = EXEC, PROFILE, FORWARD = "job.task.exec", "job.task.profile", "job.task.forward"

# permission → roles that hold it
PERMISSIONS: dict[str, frozenset[str]] = {
    "self.read": frozenset(ROLES),
    "definitions.read": _READ,
    "definitions.write": frozenset({PLATFORM}),
    "nodes.admin": frozenset({PLATFORM}),
    "nodes.read": _READ,
    "agents.admin": frozenset({PLATFORM}),
    "principals.admin": frozenset({PLATFORM}),
    "operations.submit": _WRITE,
    "operations.read": _READ,
    "operations.cancel": _WRITE,
    "jobs.exec": _WRITE,
    "operations.retry": frozenset({PLATFORM, TENANT, ADMIN}),
    "operations.recover": frozenset({PLATFORM, TENANT, ADMIN}),
    "jobs.submit": _WRITE,
    "jobs.read": _READ,
    "jobs.cancel": _WRITE,
    "events.read": _READ,
    "endpoints.read": _READ,
    "policies.admin": frozenset({PLATFORM}),
    "policies.tenant": frozenset({PLATFORM, TENANT}),
    "policies.project": frozenset({PLATFORM, TENANT}),
    "policies.read": _READ,
    "allocations.create": frozenset({PLATFORM, TENANT, ADMIN}),
    "allocations.read": _READ,
    "allocations.release": frozenset({PLATFORM, TENANT, ADMIN}),
    "allocations.admin": frozenset({PLATFORM}),
    "quarantine.admin": frozenset({PLATFORM}),
    "rollouts.admin": frozenset({PLATFORM}),
    "webhooks.admin": frozenset({PLATFORM}),
    "webhooks.project": frozenset({PLATFORM, TENANT, ADMIN}),
    "bundles.write": _WRITE,
    "bundles.read": _READ,
    "trust.admin": frozenset({PLATFORM}),
    "audit.admin": frozenset({PLATFORM, AUDITOR}),
    "audit.witness": frozenset({PLATFORM, AUDITOR}),
}


def permit(principal: Caller, permission: str) -> None:
    """Raises `scope_denied`."""
    if principal.role not in PERMISSIONS.get(permission, frozenset()):
        raise error("scope_denied", f"role {principal.role} does not hold {permission}")


def permit_own(principal: Caller, requested_by: str) -> None:
    """A member ends what it began, nobody else's (AZ-04). Raises `scope_denied`."""
    if principal.role == MEMBER and principal.name != requested_by:
        raise error("scope_denied", "a project_member cancels its own operations only")


def is_unlimited(principal: Caller) -> bool:
    """Whether every project is in its scope."""
    return principal.role == PLATFORM


def permit_project(principal: Caller, org_of_project: str, project_id: str) -> None:
    """Raises `not_found`, as if the project did not exist: nothing of another tenant can be told apart (S2).

    Args:
        org_of_project: the tenant the project's resources belong to, "" while it has none.
    """
    if is_unlimited(principal):
        return
    if principal.role == TENANT and principal.org_id and principal.org_id == org_of_project:
        return
    # a project that owns nothing yet has no tenant to compare
    if principal.project_id and principal.project_id == project_id and org_of_project in ("", principal.org_id):
        return
    raise error("not_found", f"there is no project {project_id!r} in your scope")
