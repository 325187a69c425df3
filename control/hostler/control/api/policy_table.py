"""The routes of policy overlays; a part of the table."""

from hostler.catalog.policy import PolicyOverlay
from hostler.control.api import bodies
from hostler.control.api.route import Route
from hostler.control.api.routes import policies

_TYPE = "operation-policies/{operation_type}"
_TENANT = f"/api/v1/tenants/{{tenant_id}}/{_TYPE}"
_PROJECT = f"/api/v1/projects/{{project_id}}/{_TYPE}"
_GLOBAL = f"/api/v1/admin/{_TYPE}"

POLICY_ROUTES: tuple[Route, ...] = (
    Route(
        "GET", _TENANT, "policies.tenant", policies.get_tenant, "A tenant's policy overlay", answer=bodies.PolicyView
    ),
    Route(
        "PUT",
        _TENANT,
        "policies.tenant",
        policies.put_tenant,
        "Write a tenant's policy overlay; it can only tighten",
        body=PolicyOverlay,
        action="policy.put",
        answer=bodies.PolicyView,
    ),
    Route(
        "GET", _PROJECT, "policies.read", policies.get_project, "A project's policy overlay", answer=bodies.PolicyView
    ),
    Route(
        "PUT",
        _PROJECT,
        "policies.project",
        policies.put_project,
        "Write a project's policy overlay; it can only tighten",
        body=PolicyOverlay,
        action="policy.put",
        answer=bodies.PolicyView,
    ),
    Route("GET", _GLOBAL, "policies.admin", policies.get_global, "The global policy overlay", answer=bodies.PolicyView),
    Route(
        "PUT",
        _GLOBAL,
        "policies.admin",
        policies.put_global,
        "Write the global policy overlay; it holds for everybody",
        body=PolicyOverlay,
        action="policy.put",
        answer=bodies.PolicyView,
    ),
)
