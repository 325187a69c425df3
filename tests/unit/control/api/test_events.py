"""The event log of a scope (API-23, EV-01..05, EV-11, AZ-10, S2)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.control.store import events as store_events
from support.http_api import Api, api_in

PATH = "/api/v1/events"


async def two_tenants(api: Api) -> tuple[str, str]:
    """An operation of acme/train and one of rival/lab."""
    await api.fleet.publish()
    ours = await api.fleet.node("gpu-1", org="acme", project="train")
    theirs = await api.fleet.node("gpu-2", org="rival", project="lab")
    return await api.fleet.submit(ours), await api.fleet.submit(theirs, org_id="rival", project_id="lab")


async def everything(client: Any, **query: str) -> list[Any]:
    found: list[Any] = []
    cursor = ""
    while True:
        answer = await client.get(PATH, params={**query, **({"cursor": cursor} if cursor else {})})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            return found


async def test_API_23_a_platform_admin_sees_all_and_everybody_else_their_own(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        mine, theirs = await two_tenants(api)
        admin, tenant = await api.client("platform_admin"), await api.client("tenant_admin")
        viewer = await api.client("project_viewer")
        seen = {event["operation_id"] for event in await everything(admin, page_size="3")}
        assert {mine, theirs} <= seen
        for client in (tenant, viewer):
            events = await everything(client, page_size="2")
            assert mine in {event["operation_id"] for event in events}
            assert {event["org_id"] for event in events} == {"acme"}


async def test_S2_naming_a_foreign_project_is_404(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await two_tenants(api)
        tenant = await api.client("tenant_admin")
        refused = await tenant.get(PATH, params={"project_id": "lab"})
        assert (refused.status_code, refused.json()["error_code"]) == (404, "not_found")
        assert (await tenant.get(PATH, params={"project_id": "train"})).status_code == 200


async def test_EV_11_a_type_or_a_family_narrows_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await two_tenants(api)
        admin = await api.client("platform_admin")
        assert {e["type"] for e in await everything(admin, type="operation.requested")} == {"operation.requested"}
        assert {e["type"].partition(".")[0] for e in await everything(admin, type="node")} == {"node"}
        assert (await admin.get(PATH, params={"type": "operation.exploded"})).status_code == 422
        assert (await admin.get(PATH, params={"follow": "maybe"})).status_code == 422


async def test_a_scope_with_few_events_among_many_gets_a_cursor_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_events, "STRETCH", 3)
    async with api_in(tmp_path) as api:
        mine, _ = await two_tenants(api)
        tenant = await api.client("tenant_admin")
        first = (await tenant.get(PATH, params={"page_size": "1000"})).json()
        assert len(first["items"]) <= 3
        assert first["next_cursor"]
        requested = [e for e in await everything(tenant, page_size="1000") if e["type"] == "operation.requested"]
        assert [event["operation_id"] for event in requested] == [mine]


async def test_API_23_followers_get_what_is_stored_and_what_comes_and_resume_by_id(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        mine, _ = await two_tenants(api)
        route = next(r for r in api.app.routes if r.path == PATH)
        assert route is not None
        lines: list[str] = []
        stop = asyncio.Event()
        await api.client("platform_admin", name="root-2")

        async def send(message: Any) -> None:
            lines.append(message.get("body", b"").decode())
            if "node.revoked" in lines[-1]:
                stop.set()

        async def receive() -> Any:
            await stop.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http", "method": "GET", "path": PATH, "raw_path": PATH.encode(), "query_string": b"follow=true",
            "headers": [(b"authorization", b"Bearer root-2")], "client": ("127.0.0.1", 1), "http_version": "1.1",
            "server": ("control", 80), "scheme": "http", "root_path": "", "asgi": {"version": "3.0"},
        }  # fmt: skip
        following = asyncio.create_task(api.app(scope, receive, send))
        while not any("operation.requested" in line for line in lines):
            await asyncio.sleep(0.01)
        admin = await api.client("platform_admin")
        assert (await admin.post("/api/v1/admin/nodes/gpu-1/revoke")).status_code == 200
        await asyncio.wait_for(stop.wait(), 20)
        following.cancel()
        text = "".join(lines)
        ids = [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]
        assert ids == sorted(set(ids))
        assert mine in text
