"""An allocation from the first request to the next tenant, over the HTTP API on a real store.

API-21, API-22, AL-01, AL-02, AL-07..10, OD-17, DM-04, DM-09, DM-11, DM-22, EV-11, S2.
"""

from pathlib import Path

import msgspec
import pytest
from replay.invariants import broken

from hostler.control.api.table import ROUTES
from hostler.control.kernel.allocation_states import POOL
from support.lending import BASE, NODES, place


async def test_AL_01_AL_02_API_22_a_node_goes_to_one_tenant_and_clean_to_the_next(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        made = await at.asked(node_count=1, inputs={"users": ["ann"]}, external_id="order-7")
        allocation_id = made["allocation_id"]
        assert (made["state"], made["created"]) == ("provisioning", True)
        assert (await at.asked(200, node_count=1, inputs={"users": ["ann"]}, external_id="order-7")) == {
            **made,
            "created": False,
        }
        (provision,) = await at.work()
        assert (provision.allocation_id, provision.trigger_source) == (allocation_id, "allocation_provision")
        waiting = await at.other.post("/api/v1/projects/lab/allocations", json={})
        assert waiting.json()["state"] == "requested"
        own = await at.tenant.get("/api/v1/projects/train/nodes")
        assert [node["name"] for node in own.json()["items"]] == ["pool-0"], "it is theirs for the time being"
        body = {"operation_type": "demo.write", "version": "v1", "target_selector": {"allocation": allocation_id}}
        operation_id = (await at.post("/api/v1/projects/train/operations", 202, at.tenant, **body))["operation_id"]
        (task,) = await at.work()
        assert (task.operation_id, task.allocation_id, task.trigger_source) == (operation_id, allocation_id, "")
        released = await at.tenant.post(f"{BASE}/{allocation_id}/release")
        assert (released.status_code, released.json()["state"]) == (202, "releasing")
        done = await at.work()
        assert [spec.operation_type for spec in done] == [
            "allocation.runtime.deprovision",
            "allocation.identity.revoke",
            "node.reclaim.verify",
            "allocation.runtime.provision",
        ]
        assert {spec.trigger_source for spec in done[:3]} == {"allocation_release"}
        assert (done[3].org_id, done[3].allocation_id) == ("rival", waiting.json()["allocation_id"])
        shown = await at.show(allocation_id)
        assert (shown["state"], bool(shown["finished_at_ms"])) == ("released", True)
        (node,) = shown["nodes"]
        assert node["state"] == "clean"
        assert [(link["link"], link["state"], link["tries"]) for link in node["links"]] == [
            (name, "succeeded", 1) for name in ("provision", "deprovision", "identity_revoke", "reclaim_verify")
        ]
        assert all(link["operation_id"] for link in node["links"])
        db = at.fleet.engine._db
        assert broken(db) == {}
        linked = "SELECT trigger_source FROM operations WHERE linked_allocation_id = ? AND linked_node_id IS NOT NULL"
        sources = {row[0] for row in db.execute(linked, (allocation_id,))}
        assert sources == {"allocation_provision", "allocation_release"}
        for action in ("allocation.create", "allocation.release"):
            assert len(await at.audit(action)) == {"allocation.create": 2}.get(action, 1)
        submits = await at.audit("operation.submit")
        assert [line.actor for line in submits] == ["ann"], "what a chain asks for is in the audit as the allocation"


async def test_EV_11_its_events_are_a_stream_that_ends_with_it_and_resumes(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        await at.tenant.post(f"{BASE}/{allocation_id}/release")
        await at.work()
        text = (await at.tenant.get(f"{BASE}/{allocation_id}/events")).text
        names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
        assert [name for name in names if name != "allocation.link"] == [
            "allocation.requested",
            "allocation.provisioning",
            "node.leased",
            "allocation.active",
            "allocation.releasing",
            "node.reclaimed",
            "allocation.released",
            "end",
        ]
        ids = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")]
        rest = (await at.tenant.get(f"{BASE}/{allocation_id}/events", headers={"last-event-id": ids[-2]})).text
        assert rest.count("event: ") == 2


async def test_AZ_10_S2_another_tenant_gets_404_for_it_on_every_route(tmp_path: Path) -> None:
    async with place(tmp_path, 2) as at:
        allocation_id = await at.active()
        mine = await at.other.post("/api/v1/projects/lab/allocations", json={})
        assert mine.status_code == 202
        routes = [route for route in ROUTES if "{allocation_id}" in route.path]
        assert len(routes) == 5
        for route in routes:
            for project in ("train", "lab"):
                path = route.path.format(project_id=project, allocation_id=allocation_id)
                answer = await at.other.request(route.method, path, json={} if route.method == "POST" else None)
                expected = 403 if route.permission == "allocations.admin" else 404
                assert answer.status_code == expected, (route.name, project, answer.text)
        listed = await at.other.get("/api/v1/projects/lab/allocations")
        assert [item["allocation_id"] for item in listed.json()["items"]] == [mine.json()["allocation_id"]]
        body = {"operation_type": "demo.write", "version": "v1", "target_selector": {"allocation": allocation_id}}
        assert (await at.other.post("/api/v1/projects/lab/operations", json=body)).status_code == 404
        assert (await at.show(allocation_id))["state"] == "active"


async def test_S2_a_project_keeps_its_tenant_after_its_nodes_are_gone(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        await at.tenant.post(f"{BASE}/{allocation_id}/release")
        await at.work()
        rival = await at.api.client("project_admin", "rival", "train", name="rita")
        assert (await rival.get(f"{BASE}/{allocation_id}")).status_code == 404
        assert (await rival.post(BASE, json={})).status_code == 404


@pytest.mark.parametrize("role", ["tenant_admin", "project_admin", "project_member", "project_viewer", "auditor"])
async def test_AL_08_R3_nobody_but_a_platform_admin_touches_quarantine_or_force(role: str, tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        node = at.nodes[0].name
        await at.post(f"{NODES}/{node}/quarantine", 200, at.admin, reason="hums")
        tenant = await at.api.client(role, name="tom")
        for path in (
            f"{NODES}/{node}/clear",
            f"{NODES}/{node}/quarantine",
            f"{NODES}/{node}/uncordon",
            f"{NODES}/{node}/probe",
            f"{BASE}/{allocation_id}/force-release",
            "/api/v1/admin/quarantine/breaker/close",
        ):
            refused = await at.post(path, 403, tenant, reason="please")
            assert refused["error_code"] == "scope_denied"
        assert (await at.admin.get(f"{NODES}/{node}")).json()["health"] == "quarantined"
        denied = [line for line in await at.fleet.engine.reader.audit(0, 10_000) if line.actor == "tom"]
        assert len(denied) == 6
        assert {line.result for line in denied} == {"refused"}


async def test_AL_07_AL_09_a_failed_verification_locks_the_node_until_a_retry_passes(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        await at.tenant.post(f"{BASE}/{allocation_id}/release")
        await at.work(fail="node.reclaim.verify")
        shown = await at.show(allocation_id)
        assert (shown["state"], shown["error_code"]) == ("failed", "exit_status")
        (node,) = shown["nodes"]
        assert (node["state"], node["health"], node["links"][-1]["error_message"]) == (
            "quarantined",
            "quarantined",
            "it broke",
        )
        assert (await at.asked())["state"] == "requested"
        refused = await at.post(f"{NODES}/pool-0/clear", 409, at.admin, reason="looks fine to me")
        assert refused["error_code"] == "node_leased"
        await at.tenant.post(f"{BASE}/{allocation_id}/retry")
        done = await at.work()
        assert done[0].attempt_number == 2
        assert (await at.show(allocation_id))["state"] == "released"
        (line,) = await at.audit("allocation.retry")
        assert line.body["operations"] == [node["links"][-1]["operation_id"]]


async def test_OD_17_after_a_failed_deprovision_the_node_is_told_to_end_access(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active(inputs={"users": ["ann"]})
        await at.tenant.post(f"{BASE}/{allocation_id}/release")
        done = await at.work(fail="allocation.runtime.deprovision")
        assert [(spec.operation_type, spec.trigger_source) for spec in done] == [
            ("allocation.runtime.deprovision", "allocation_release"),
            ("allocation.identity.revoke", "system"),
        ]
        assert len(await at.audit("allocation.forced_revoke")) == 1
        forced = await at.post(f"{BASE}/{allocation_id}/force-release", 202, at.admin, reason="mended by hand")
        assert forced["state"] == "releasing"
        await at.work()
        assert (await at.show(allocation_id))["state"] == "released"


async def test_API_21_EF_07_DM_22_cordon_drain_uncordon_and_probe(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        path = f"{NODES}/pool-0"
        assert (await at.post(f"{path}/cordon", 200, at.admin, owner="kubernetes", reason="upgrade"))["scheduling"]
        await at.post(f"{path}/drain", 200, at.admin)
        shown = (await at.admin.get(path)).json()
        assert shown["scheduling"] == "draining"
        assert [(wish["owner"], wish["kind"]) for wish in shown["worker_policy"]] == [
            ("kubernetes", "cordoned"),
            ("operator", "draining"),
        ]
        assert (await at.post(f"{path}/uncordon", 200, at.admin))["scheduling"] == "cordoned", "R3: theirs stays"
        probed = await at.post(f"{path}/probe", 202, at.admin)
        await at.work()
        operation = await at.admin.get(f"/api/v1/projects/{probed['project_id']}/operations/{probed['operation_id']}")
        assert operation.json()["status"] == "succeeded"
        assert (await at.asked())["state"] == "requested"
        await at.post(f"{path}/uncordon", 200, at.admin, owner="kubernetes")
        assert (await at.admin.get(path)).json()["reclaim"] == "leased", "who waited has it"
        for action, lines in (("node.cordon", 1), ("node.drain", 1), ("node.uncordon", 2), ("node.probe", 1)):
            assert len(await at.audit(action)) == lines, action


async def test_a_pool_node_enrols_by_a_token_of_the_pool(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        tokens = "/api/v1/admin/enrolment-tokens"
        await at.post(tokens, 201, at.admin, node_name="spare", pool=True)
        mixed = {"node_name": "mixed", "pool": True, "org_id": "acme"}
        assert (await at.post(tokens, 422, at.admin, **mixed))["error_code"] == "invalid_request"
        assert (await at.post(tokens, 422, at.admin, node_name="none"))["error_code"] == "invalid_request"
        assert (await at.post(tokens, 422, at.admin, node_name="x", org_id=POOL, project_id=POOL))["pointer"]


async def test_the_list_pages_filters_and_covers_every_project_for_an_administrator(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        made = [(await at.asked())["allocation_id"] for _ in range(3)]
        await at.other.post("/api/v1/projects/lab/allocations", json={})
        first = (await at.tenant.get(BASE, params={"page_size": "2"})).json()
        second = (await at.tenant.get(BASE, params={"page_size": "2", "cursor": first["next_cursor"]})).json()
        assert [item["allocation_id"] for item in first["items"] + second["items"]] == sorted(made, reverse=True)
        waiting = (await at.tenant.get(BASE, params={"state": "requested"})).json()
        assert len(waiting["items"]) == 2
        assert (await at.tenant.get(BASE, params={"state": "asleep"})).status_code == 422
        assert len((await at.admin.get("/api/v1/admin/allocations")).json()["items"]) == 4


async def test_DM_11_what_was_asked_for_is_kept_as_it_was(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = (await at.asked(inputs={"users": ["ann"]}, labels={"gpu": "h100"}))["allocation_id"]
        shown = await at.show(allocation_id)
        assert (shown["inputs"], shown["labels"]) == ({"users": ["ann"]}, {"gpu": "h100"})
        assert (shown["requested_by"], shown["provision_ref"]) == ("ann", "allocation.runtime.provision@v1")
        assert msgspec.json.encode(shown)
