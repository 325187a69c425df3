"""AZ-01..05: who may do what, written out by hand from the requirements, against every route the API describes.

The table below is not read from the code: a role that gains or loses a route in `authz.py` or in the route table turns
this red, and has to be argued for here first.
"""

from pathlib import Path

import pytest

from hostler.control.api import openapi
from hostler.control.api.authz import PERMISSIONS, ROLES
from hostler.control.api.table import ROUTES
from support.http_api import api_in
from support.routes import path_of

P, T, A, M, V, W = "platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer", "auditor"
EVERYBODY = {P, T, A, M, V, W}
VIEWERS = {P, T, A, M, V}  # AZ-05: read-only, which the four above may as well
SUBMITTERS = {P, T, A, M}  # AZ-02, AZ-03, AZ-04
RETRIERS = {P, T, A}  # AZ-02, AZ-03: a member submits, views and cancels its own
SCOPES = {P, T}  # AZ-02: overlays of tenants and projects
PLATFORM = {P}  # AZ-01
AUDIT = {P, W}

EXPECTED: dict[str, set[str]] = {
    # what a project does
    "POST /api/v1/projects/{project_id}/operations": SUBMITTERS,
    "GET /api/v1/projects/{project_id}/operations": VIEWERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}": VIEWERS,
    "POST /api/v1/projects/{project_id}/operations/{operation_id}/cancel": SUBMITTERS,
    "POST /api/v1/projects/{project_id}/operations/{operation_id}/retry": RETRIERS,
    "POST /api/v1/projects/{project_id}/operations/{operation_id}/probe": RETRIERS,
    "POST /api/v1/projects/{project_id}/operations/{operation_id}/recover": RETRIERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}/logs": VIEWERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}/events": VIEWERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}/audit-bundle": VIEWERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}/envelope": VIEWERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}/artifacts": VIEWERS,
    "GET /api/v1/projects/{project_id}/operations/{operation_id}/artifacts/{artifact_id}": VIEWERS,
    "GET /api/v1/projects/{project_id}/nodes": VIEWERS,
    "GET /api/v1/projects/{project_id}/endpoints": VIEWERS,
    "POST /api/v1/projects/{project_id}/jobs": SUBMITTERS,
    "GET /api/v1/projects/{project_id}/jobs": VIEWERS,
    "GET /api/v1/projects/{project_id}/jobs/{job_id}": VIEWERS,
    "GET /api/v1/projects/{project_id}/jobs/{job_id}/tasks": VIEWERS,
    "GET /api/v1/projects/{project_id}/jobs/{job_id}/explain": VIEWERS,
    "GET /api/v1/projects/{project_id}/jobs/{job_id}/wait": VIEWERS,
    "POST /api/v1/projects/{project_id}/jobs/{job_id}/cancel": SUBMITTERS,
    "GET /api/v1/admin/capacity": PLATFORM,
    # into running tasks
    "POST /api/v1/projects/{project_id}/jobs/{job_id}/exec": SUBMITTERS,
    "POST /api/v1/projects/{project_id}/jobs/{job_id}/profile": SUBMITTERS,
    "GET /api/v1/projects/{project_id}/endpoints/{task_id}/{endpoint_id}/proxy/{rest}": SUBMITTERS,
    "POST /api/v1/projects/{project_id}/endpoints/{task_id}/{endpoint_id}/proxy/{rest}": SUBMITTERS,
    "PUT /api/v1/projects/{project_id}/endpoints/{task_id}/{endpoint_id}/proxy/{rest}": SUBMITTERS,
    "PATCH /api/v1/projects/{project_id}/endpoints/{task_id}/{endpoint_id}/proxy/{rest}": SUBMITTERS,
    "DELETE /api/v1/projects/{project_id}/endpoints/{task_id}/{endpoint_id}/proxy/{rest}": SUBMITTERS,
    # whom a project tells
    "POST /api/v1/projects/{project_id}/webhooks": RETRIERS,
    "GET /api/v1/projects/{project_id}/webhooks": RETRIERS,
    "DELETE /api/v1/projects/{project_id}/webhooks/{webhook_id}": RETRIERS,
    "POST /api/v1/projects/{project_id}/webhooks/{webhook_id}/enable": RETRIERS,
    "POST /api/v1/projects/{project_id}/webhooks/{webhook_id}/test": RETRIERS,
    # what its jobs run
    "PUT /api/v1/projects/{project_id}/bundles/{sha256}": SUBMITTERS,
    "GET /api/v1/projects/{project_id}/bundles/{sha256}": VIEWERS,
    "GET /api/v1/projects/{project_id}/bundles": VIEWERS,
    "DELETE /api/v1/projects/{project_id}/bundles/{sha256}": SUBMITTERS,
    "POST /api/v1/projects/{project_id}/webhooks/{webhook_id}/resend": RETRIERS,
    "GET /api/v1/projects/{project_id}/webhooks/{webhook_id}/parked": RETRIERS,
    # what a project borrows
    "POST /api/v1/projects/{project_id}/allocations": RETRIERS,
    "GET /api/v1/projects/{project_id}/allocations": VIEWERS,
    "GET /api/v1/projects/{project_id}/allocations/{allocation_id}": VIEWERS,
    "GET /api/v1/projects/{project_id}/allocations/{allocation_id}/events": VIEWERS,
    "POST /api/v1/projects/{project_id}/allocations/{allocation_id}/release": RETRIERS,
    "POST /api/v1/projects/{project_id}/allocations/{allocation_id}/retry": RETRIERS,
    "POST /api/v1/projects/{project_id}/allocations/{allocation_id}/force-release": PLATFORM,
    "GET /api/v1/events": VIEWERS,
    "GET /api/v1/whoami": EVERYBODY,
    # AZ-01: definitions, versions, what is trusted, who there is
    "POST /api/v1/admin/operation-definitions": PLATFORM,
    "GET /api/v1/admin/operation-definitions": VIEWERS,
    "GET /api/v1/admin/operation-definitions/{ref}": VIEWERS,
    "PATCH /api/v1/admin/operation-definitions/{ref}": PLATFORM,
    "POST /api/v1/admin/operation-definitions/{ref}/deprecate": PLATFORM,
    "POST /api/v1/admin/operation-definitions/{ref}/retire": PLATFORM,
    "GET /api/v1/admin/nodes": PLATFORM,
    "GET /api/v1/admin/nodes/{node_id}": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/revoke": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/release": PLATFORM,
    # what runs on nodes as root is the platform's alone
    "GET /api/v1/admin/nodes/{node_id}/agent-lifecycle": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/agent-lifecycle": PLATFORM,
    "PUT /api/v1/admin/nodes/{node_id}/agent-channel": PLATFORM,
    "GET /api/v1/admin/agent-runs": PLATFORM,
    "GET /api/v1/admin/agent-runs/{run_id}": PLATFORM,
    "GET /api/v1/admin/agent-runs/{run_id}/events": PLATFORM,
    "POST /api/v1/admin/agent-runs/{run_id}/cancel": PLATFORM,
    "GET /api/v1/admin/agent-channels": PLATFORM,
    "PUT /api/v1/admin/agent-channels/{channel}": PLATFORM,
    "GET /api/v1/admin/agent-releases": PLATFORM,
    "PUT /api/v1/admin/agent-releases": PLATFORM,
    "PUT /api/v1/admin/agent-releases/packages/{sha256}": PLATFORM,
    "POST /api/v1/admin/webhooks": PLATFORM,
    "GET /api/v1/admin/webhooks": PLATFORM,
    "DELETE /api/v1/admin/webhooks/{webhook_id}": PLATFORM,
    "POST /api/v1/admin/webhooks/{webhook_id}/enable": PLATFORM,
    "POST /api/v1/admin/webhooks/{webhook_id}/test": PLATFORM,
    "POST /api/v1/admin/webhooks/{webhook_id}/resend": PLATFORM,
    "GET /api/v1/admin/webhooks/{webhook_id}/parked": PLATFORM,
    # AL-08: a quarantine is the platform's to lift, and nobody else's
    "GET /api/v1/admin/allocations": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/cordon": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/drain": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/uncordon": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/quarantine": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/clear": PLATFORM,
    "GET /api/v1/admin/nodes/{node_id}/telemetry": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/probe": PLATFORM,
    "POST /api/v1/admin/nodes/{node_id}/recover": PLATFORM,
    "POST /api/v1/admin/agent-rollouts": PLATFORM,
    "GET /api/v1/admin/agent-rollouts": PLATFORM,
    "GET /api/v1/admin/agent-rollouts/{rollout_id}": PLATFORM,
    "POST /api/v1/admin/agent-rollouts/{rollout_id}/approve": PLATFORM,
    "POST /api/v1/admin/agent-rollouts/{rollout_id}/pause": PLATFORM,
    "POST /api/v1/admin/agent-rollouts/{rollout_id}/resume": PLATFORM,
    "POST /api/v1/admin/agent-rollouts/{rollout_id}/abort": PLATFORM,
    "POST /api/v1/admin/agent-rollouts/{rollout_id}/rollback": PLATFORM,
    "GET /api/v1/admin/quarantine/breaker": PLATFORM,
    "POST /api/v1/admin/quarantine/breaker/close": PLATFORM,
    "POST /api/v1/admin/enrolment-tokens": PLATFORM,
    "GET /api/v1/admin/trust": PLATFORM,
    "GET /api/v1/admin/trust/tasks": PLATFORM,
    "POST /api/v1/admin/trust/keyset": PLATFORM,
    "POST /api/v1/admin/principals": PLATFORM,
    "GET /api/v1/admin/principals": PLATFORM,
    "DELETE /api/v1/admin/principals/{name}": PLATFORM,
    # global allow and deny; AZ-02: those of a tenant and its projects, which cannot pass a hard-deny (AZ-06)
    "GET /api/v1/admin/operation-policies/{operation_type}": PLATFORM,
    "PUT /api/v1/admin/operation-policies/{operation_type}": PLATFORM,
    "GET /api/v1/tenants/{tenant_id}/operation-policies/{operation_type}": SCOPES,
    "PUT /api/v1/tenants/{tenant_id}/operation-policies/{operation_type}": SCOPES,
    "GET /api/v1/projects/{project_id}/operation-policies/{operation_type}": VIEWERS,
    "PUT /api/v1/projects/{project_id}/operation-policies/{operation_type}": SCOPES,
    # an auditor reads every chain and countersigns, and does nothing else
    "GET /api/v1/admin/audit-bundle": AUDIT,
    "GET /api/v1/admin/audit-logs": AUDIT,
    "GET /api/v1/admin/checkpoints": AUDIT,
    "POST /api/v1/admin/checkpoints/{index}/countersignatures": AUDIT,
}


def described() -> set[str]:
    paths = openapi.document("1")["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def test_every_described_route_has_a_row_and_no_row_is_left_over() -> None:
    assert described() - set(EXPECTED) == set(), "say here who may use the new route"
    assert set(EXPECTED) - described() == set()


def test_the_permissions_of_the_code_give_exactly_these_roles() -> None:
    found = {f"{route.method} {route.path}": set(PERMISSIONS[route.permission]) for route in ROUTES}
    assert found == EXPECTED


def test_the_table_keeps_what_the_requirements_say_of_each_role() -> None:
    writes = {name for name in EXPECTED if not name.startswith("GET ")}
    of = {role: {name for name, roles in EXPECTED.items() if role in roles} for role in ROLES}
    assert set(of) == EVERYBODY
    assert of[V] & writes == set()  # AZ-05
    assert of[V] < of[M] < of[A] < of[T] < of[P]  # each next one may what the one below may
    definitions = {name for name in writes if "operation-definitions" in name}
    assert definitions
    assert not definitions & (of[T] | of[A] | of[M])  # AZ-02: a tenant_admin cannot register commands
    # AZ-04; the code of its jobs; what it may enter are tasks of its own jobs, as the route itself says
    mine = {name.rpartition("/")[2] for name in (of[M] & writes)}
    assert mine == {"operations", "jobs", "cancel", "{sha256}", "exec", "profile", "{rest}"}
    assert {name for name in of[W] if name.startswith("GET /api/v1/projects")} == set()
    assert of[P] == set(EXPECTED)  # AZ-01


@pytest.mark.parametrize("role", ROLES)
async def test_AZ_01_to_05_the_served_routes_answer_by_this_table(role: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        await api.fleet.enroll("gpu-1")
        client = await api.client(role)
        wrong = []
        for route in ROUTES:
            query = {"follow": "true"} if "follow" in route.query and "{operation_id}" in route.path else {}
            body = {} if route.method in ("POST", "PUT", "PATCH") else None
            answer = await client.request(route.method, path_of(route), params=query, json=body)
            refused = answer.status_code == 403 and answer.json()["error_code"] == "scope_denied"
            if refused is (role in EXPECTED[f"{route.method} {route.path}"]):
                wrong.append((route.method, route.path, answer.status_code))
        assert wrong == []
