"""Policy overlays over HTTP (API-05, API-06, AZ-02, AZ-07, S2, S3)."""

from pathlib import Path
from typing import Any

import pytest

from support.http_api import Api, api_in

TENANT = "/api/v1/tenants/acme/operation-policies/demo.write"
PROJECT = "/api/v1/projects/train/operation-policies/demo.write"
GLOBAL = "/api/v1/admin/operation-policies/{}"


async def ready(api: Api) -> Any:
    await api.fleet.publish()
    return await api.fleet.enroll("gpu-1")


async def test_API_05_06_each_scope_is_read_and_written_and_explained(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await ready(api)
        admin, tenant = await api.client("platform_admin"), await api.client("tenant_admin")
        everybody = await admin.put(GLOBAL.format("*"), json={"max_artifact_size_bytes": 1000})
        assert (everybody.status_code, everybody.json()["applies_to_every_type"]) == (200, True)
        assert (await tenant.put(TENANT, json={"timeout_seconds": 60})).json()["revision"] == 1
        made = (await tenant.put(PROJECT, json={"timeout_seconds": 30})).json()
        assert made["effective"]["timeout_seconds"] == 30
        assert made["set_by"] == {"max_artifact_size_bytes": "global", "timeout_seconds": "project train"}
        viewer = await api.client("project_viewer")
        seen = (await viewer.get(PROJECT)).json()
        assert (seen["overlay"]["timeout_seconds"], seen["updated_by"]) == (30, "tenant-admin-acme")
        assert (await viewer.put(PROJECT, json={})).status_code == 403


async def test_S3_a_weaker_overlay_gets_422_with_the_key(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await ready(api)
        admin, tenant = await api.client("platform_admin"), await api.client("tenant_admin")
        await admin.put(GLOBAL.format("demo.write"), json={"enabled": False})
        refused = await tenant.put(PROJECT, json={"enabled": True})
        assert refused.status_code == 422
        assert (refused.json()["error_code"], refused.json()["pointer"]) == ("policy_weakens", "/enabled")
        assert (await tenant.get(PROJECT)).json()["revision"] == 0


@pytest.mark.parametrize("body", [{"max_tasks": 1}, {"enabled": "yes"}, {"timeout_seconds": 1.5}, []])
async def test_AZ_07_an_unknown_key_or_another_type_is_refused(body: Any, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await ready(api)
        tenant = await api.client("tenant_admin")
        assert (await tenant.put(TENANT, json=body)).status_code == 422


async def test_the_second_of_two_writers_is_told(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await ready(api)
        tenant = await api.client("tenant_admin")
        first = {"if-match": '"0"'}
        assert (await tenant.put(TENANT, json={"timeout_seconds": 9}, headers=first)).status_code == 200
        late = await tenant.put(TENANT, json={"timeout_seconds": 8}, headers=first)
        assert (late.status_code, late.json()["error_code"]) == (409, "policy_changed")
        wild = await tenant.put(TENANT, json={}, headers={"if-match": "*"})
        assert wild.status_code == 422


async def test_S2_a_tenant_sees_nothing_of_another_tenant_s_policy(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await ready(api)
        rival = await api.client("tenant_admin", org="rival", project="")
        for path in (TENANT, PROJECT):
            assert (await rival.get(path)).status_code == 404
            assert (await rival.put(path, json={"enabled": False})).status_code == 404
        assert (await rival.put(GLOBAL.format("*"), json={"enabled": False})).status_code == 403


async def test_AZ_07_a_submit_feels_it(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        node = await ready(api)
        tenant, user = await api.client("tenant_admin"), await api.client("project_admin")
        await tenant.put(TENANT, json={"allowed_target_kinds": ["group"]})
        body = {"operation_type": "demo.write", "version": "v1", "target_selector": {"nodes": [node.node_id]}}
        refused = await user.post("/api/v1/projects/train/operations", json=body)
        assert (refused.status_code, refused.json()["error_code"]) == (403, "policy_denied")
