"""PATCH of a definition (API-02): words may change, what was signed never."""

from pathlib import Path
from typing import Any

import pytest

from support.http_api import api_in

PATH = "/api/v1/admin/operation-definitions/demo.write@v1"


async def test_API_02_the_answer_shows_the_new_words(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        admin = await api.client("platform_admin")
        answer = await admin.patch(PATH, json={"deprecation_note": "use v2", "default_channel": "candidate"})
        assert answer.status_code == 200
        assert (answer.json()["deprecation_note"], answer.json()["default_channel"]) == ("use v2", "candidate")
        assert (await admin.get(PATH)).json() == answer.json()


@pytest.mark.parametrize("field", ["step_plan", "steps", "inputs", "input_schema", "capabilities", "type", "version"])
async def test_API_02_a_signed_field_is_refused_by_its_name(field: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        admin = await api.client("platform_admin")
        refused = await admin.patch(PATH, json={field: [], "description": "x"})
        assert (refused.status_code, refused.json()["error_code"]) == (409, "definition_immutable")
        assert refused.json()["pointer"] == f"/{field}"
        assert (await admin.get(PATH)).json()["description"] == ""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"colour": "red"}, "unknown_field"),
        ({"default_channel": "nightly"}, "invalid_request"),
        ([], "invalid_request"),
    ],
)
async def test_API_02_what_is_neither_word_nor_field_is_refused(body: Any, code: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        admin = await api.client("platform_admin")
        refused = await admin.patch(PATH, json=body)
        assert (refused.status_code, refused.json()["error_code"]) == (422, code)


async def test_API_02_only_a_platform_admin_may(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        tenant = await api.client("tenant_admin")
        assert (await tenant.patch(PATH, json={"description": "mine"})).status_code == 403


async def test_a_method_that_a_path_does_not_take_is_405_and_names_those_it_takes(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        refused = await admin.put("/api/v1/whoami", json={})
        assert (refused.status_code, refused.json()["error_code"]) == (405, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD"
        several = await admin.put("/api/v1/projects/train/operations", json={})
        assert several.headers["allow"] == "GET, HEAD, POST"


async def test_the_request_s_own_limits_come_through(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        node = await api.fleet.enroll("gpu-1")
        user = await api.client("project_admin")
        body = {"operation_type": "demo.write", "version": "v1", "target_selector": {"nodes": [node.node_id]}}
        body |= {"timeout_seconds": 7, "max_concurrency": 2}
        made = (await user.post("/api/v1/projects/train/operations", json=body)).json()
        seen = (await user.get(f"/api/v1/projects/train/operations/{made['operation_id']}")).json()
        assert (seen["policy"]["timeout_seconds"], seen["policy"]["max_concurrency"]) == (7, 2)
        need = await user.post("/api/v1/projects/train/operations", json=body | {"require_plan_approval": True})
        assert (need.status_code, need.json()["error_code"]) == (422, "plan_approval_required")
