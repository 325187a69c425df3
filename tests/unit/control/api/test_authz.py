"""Who may do what: generated from the route table, so that a new route is covered the day it is written."""

from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route as HttpRoute
from starlette.routing import WebSocketRoute

from hostler.control.api.authz import PERMISSIONS, ROLES
from hostler.control.api.endpoint_table import PROXY_SERVED
from hostler.control.api.relay import PATH as RELAY
from hostler.control.api.route import Route
from hostler.control.api.table import ROUTES
from hostler.control.api.web import FILES
from support.http_api import Api, api_in
from support.routes import path_of

PROJECT_ROLES = tuple(role for role in ROLES if role.startswith("project_"))
OPEN = {"/health", "/metrics", "/openapi.json", *FILES}  # pages and scripts, which hold no data
# signed data for nodes, a package only at the address that a run was given (test_agent_releases.py)
OPEN |= {"/packages/v1/metadata.json", "/packages/v1/{token}/{file}"}


async def asked(client: Any, route: Route, path: str) -> Any:
    query = {"follow": "true"} if "follow" in route.query and "{operation_id}" in route.path else {}
    return await client.request(route.method, path, params=query, json={} if route.method in ("POST", "PUT") else None)


def test_every_route_has_a_permission_and_every_permission_a_role() -> None:
    assert {route.permission for route in ROUTES} == set(PERMISSIONS)
    assert all(PERMISSIONS.values())
    assert set().union(*PERMISSIONS.values()) == set(ROLES)


def test_SE_02_every_route_that_changes_something_has_a_name_in_the_audit() -> None:
    assert [route.name for route in ROUTES if bool(route.action) != (route.method != "GET")] == []


async def test_nothing_is_served_that_is_not_in_the_table_but_the_open_pages(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        sockets = [route.path for route in api.app.routes if isinstance(route, WebSocketRoute)]
        assert sockets == [RELAY, PROXY_SERVED]  # test_X1_terminals.py says who may attach; the other only refuses
        served = {(r.path, *sorted(r.methods - {"HEAD"})) for r in api.app.routes if isinstance(r, HttpRoute)}
        assert len(served) == len(api.app.routes) - 2
    assert served - {(route.served, route.method) for route in ROUTES} == {(path, "GET") for path in OPEN}


@pytest.mark.parametrize("role", ROLES)
async def test_AZ_01_to_05_each_role_may_do_what_its_permissions_say_and_nothing_else(
    role: str, tmp_path: Path
) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        await api.fleet.enroll("gpu-1")
        client = await api.client(role)
        for route in ROUTES:
            answer = await asked(client, route, path_of(route))
            code = answer.json().get("error_code", "") if answer.status_code >= 400 else ""
            allowed = role in PERMISSIONS[route.permission]
            assert (code == "scope_denied") is not allowed, (route.name, answer.text)
            assert allowed or answer.status_code == 403
            if allowed:
                assert answer.status_code != 401, route.name


async def test_without_a_token_or_with_a_foreign_one_no_route_answers(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        for token in ("", "hsb1_of_somebody_else"):
            client = api.bearer(token)
            for route in ROUTES:
                answer = await asked(client, route, path_of(route))
                assert answer.status_code == 401, route.name
                assert answer.json()["error_code"] == "unauthenticated"
                assert answer.headers["www-authenticate"] == "Bearer"


async def _other_tenants_operation(api: Api) -> str:
    await api.fleet.publish()
    node = await api.fleet.node("gpu-1", org="acme", project="train")
    return await api.fleet.submit(node)


@pytest.mark.parametrize(
    ("role", "org", "project"),
    [("tenant_admin", "rival", ""), *((role, "rival", "lab") for role in PROJECT_ROLES)],
)
async def test_AZ_10_S2_a_foreign_tenant_gets_404_from_every_route_of_a_project(
    role: str, org: str, project: str, tmp_path: Path
) -> None:
    async with api_in(tmp_path) as api:
        operation_id = await _other_tenants_operation(api)
        await api.fleet.enroll("gpu-2", org="rival", project="lab")
        foreign = await api.client(role, org, project)
        owner = await api.client("project_admin")
        for route in (route for route in ROUTES if "{project_id}" in route.path or "{tenant_id}" in route.path):
            if role not in PERMISSIONS[route.permission]:
                continue
            # through the owner's project, and by the owner's id below one's own project
            for place in ("train", "lab"):
                if place == "lab" and "{operation_id}" not in route.path:
                    continue
                answer = await asked(foreign, route, path_of(route, project_id=place, operation_id=operation_id))
                assert answer.status_code == 404, (route.name, place, answer.text)
                nowhere = {"project_id": "nosuch", "operation_id": "op_nosuch", "tenant_id": "nosuch"}
                unknown = await asked(foreign, route, path_of(route, **nowhere))
                assert answer.json()["error_code"] == unknown.json()["error_code"] == "not_found"
        mine = await owner.get(f"/api/v1/projects/train/operations/{operation_id}")
        assert mine.status_code == 200


@pytest.mark.parametrize("role", PROJECT_ROLES)
async def test_AZ_10_S2_a_member_of_a_sister_project_gets_404_too(role: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        operation_id = await _other_tenants_operation(api)
        await api.fleet.enroll("gpu-2", org="acme", project="serve")
        sister = await api.client(role, "acme", "serve", name="sister")
        for route in (route for route in ROUTES if "{project_id}" in route.path):
            if role in PERMISSIONS[route.permission]:
                answer = await asked(sister, route, path_of(route, operation_id=operation_id))
                assert answer.status_code == 404, (route.name, answer.text)


async def test_AZ_04_a_member_cancels_its_own_operations_only(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        node = await api.fleet.enroll("gpu-1")
        mine, other = await api.client("project_member", name="mia"), await api.client("project_member", name="otto")
        base = "/api/v1/projects/train/operations"
        body = {"operation_type": "demo.write", "version": "v1", "target_selector": {"nodes": [node.node_id]}}
        operation_id = (await mine.post(base, json=body)).json()["operation_id"]
        refused = await other.post(f"{base}/{operation_id}/cancel")
        assert (refused.status_code, refused.json()["error_code"]) == (403, "scope_denied")
        assert (await mine.post(f"{base}/{operation_id}/cancel")).status_code == 202
        assert (await api.fleet.operation(operation_id)).status == "canceled"


async def test_a_revoked_principal_is_nobody_from_that_moment(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, user = await api.client("platform_admin"), await api.client("project_viewer", name="vera")
        assert (await user.get("/api/v1/whoami")).json()["name"] == "vera"
        assert (await admin.delete("/api/v1/admin/principals/vera")).status_code == 200
        assert (await user.get("/api/v1/whoami")).status_code == 401


async def test_a_principal_whose_time_is_over_is_nobody(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        body = {"name": "brief", "role": "platform_admin", "valid_seconds": 60}
        made = await admin.post("/api/v1/admin/principals", json=body)
        brief = api.bearer(made.json()["token"])
        assert (await brief.get("/api/v1/whoami")).status_code == 200
        api.fleet.clock.move(61_000)
        api.parts.authenticator.forget()
        assert (await brief.get("/api/v1/whoami")).status_code == 401


async def test_SE_02_every_refused_mutation_leaves_exactly_one_line_in_the_audit(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        viewer = await api.client("project_viewer", name="vera")
        for route in (route for route in ROUTES if route.action):
            before = await api.fleet.engine.reader.audit(0, 10_000)
            assert (await asked(viewer, route, path_of(route))).status_code == 403
            (line,) = (await api.fleet.engine.reader.audit(0, 10_000))[len(before) :]
            assert (line.actor, line.action, line.result) == ("vera", route.action, "refused")
            assert line.error_code == "scope_denied"


async def test_SE_02_a_mutation_that_passed_or_failed_inside_leaves_exactly_one_line_too(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        node = await api.fleet.enroll("gpu-1")
        admin = await api.client("platform_admin")
        base = "/api/v1/projects/train/operations"
        good = {"operation_type": "demo.write", "version": "v1", "target_selector": {"nodes": [node.node_id]}}
        for body, result in ((good, "accepted"), (good | {"version": "v9"}, "refused"), (good | {"x": 1}, "refused")):
            before = await api.fleet.engine.reader.audit(0, 10_000)
            await admin.post(base, json=body)
            (line,) = (await api.fleet.engine.reader.audit(0, 10_000))[len(before) :]
            assert (line.action, line.result) == ("operation.submit", result)
