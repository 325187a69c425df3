"""R3: who may clear a quarantine, whose cordon is whose, and a bad check that would take the whole fleet."""

from pathlib import Path

from support.lending import BASE, NODES, place

TENANT_ROLES = ("tenant_admin", "project_admin", "project_member", "project_viewer")


async def test_R3_AL_08_a_tenant_cannot_clear_a_quarantine_and_the_try_is_in_the_audit(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        await at.tenant.post(f"{BASE}/{allocation_id}/release")
        await at.work(fail="node.reclaim.verify")
        for role in TENANT_ROLES:
            who = await at.api.client(role, name=f"t-{role.replace('_', '-')}")
            assert (await at.post(f"{NODES}/pool-0/clear", 403, who, reason="mine"))["error_code"] == "scope_denied"
        assert len(await at.audit("node.clear")) == len(TENANT_ROLES)
        assert (await at.admin.get(f"{NODES}/pool-0")).json()["health"] == "quarantined"
        direct = {"operation_type": "node.reclaim.verify", "version": "v1"}
        for selector in ({"allocation": allocation_id}, {"nodes": ["pool-0"]}):
            path = "/api/v1/projects/train/operations"
            refused = await at.post(path, 409, at.tenant, target_selector=selector, **direct)
            assert refused["error_code"] in ("allocation_state", "wrong_allocation")


async def test_R3_a_cordon_from_elsewhere_outlives_everything_we_do_to_the_node(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        node = f"{NODES}/pool-0"
        await at.post(f"{node}/cordon", 200, at.admin, owner="kubernetes", reason="kernel upgrade")
        await at.tenant.post(f"{BASE}/{allocation_id}/release")
        await at.work(fail="node.reclaim.verify")
        await at.tenant.post(f"{BASE}/{allocation_id}/retry")
        await at.work()
        await at.post(f"{node}/quarantine", 200, at.admin, reason="look")
        await at.post(f"{node}/clear", 200, at.admin, reason="looked")
        for _ in range(2):
            await at.post(f"{node}/uncordon", 200, at.admin)
        shown = (await at.admin.get(node)).json()
        assert (shown["health"], shown["reclaim"], shown["scheduling"]) == ("ok", "clean", "cordoned")
        assert [(wish["owner"], wish["reason"]) for wish in shown["worker_policy"]] == [
            ("kubernetes", "kernel upgrade")
        ]
        assert (await at.asked())["state"] == "requested"


async def test_R3_a_bad_check_trips_the_breaker_before_it_has_taken_the_fleet(tmp_path: Path) -> None:
    async with place(tmp_path, 10) as at:
        leases = [await at.active() for _ in range(6)]
        for allocation_id in leases:
            await at.tenant.post(f"{BASE}/{allocation_id}/release")
        await at.work(fail="node.reclaim.verify")
        nodes = (await at.admin.get(NODES)).json()["items"]
        health = [node["health"] for node in nodes]
        assert (health.count("quarantined"), health.count("cleaning"), health.count("ok")) == (2, 4, 4)
        assert (await at.admin.get("/api/v1/admin/quarantine/breaker")).json()["opened_at_ms"] > 0
        events = await at.fleet.events()
        assert [event.type for event in events].count("quarantine.breaker_opened") == 1
        assert (await at.asked(node_count=5))["state"] == "requested", "what is held is given to nobody"
        await at.post("/api/v1/admin/quarantine/breaker/close", 200, at.admin, reason="the check was wrong")
        for allocation_id in leases:
            await at.post(f"{BASE}/{allocation_id}/retry", 202, at.tenant)
        await at.work()
        states = [(await at.show(allocation_id))["state"] for allocation_id in leases]
        assert states == ["released"] * 6
