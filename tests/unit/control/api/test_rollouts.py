"""API-20, DM-07: rollouts over HTTP on a real store, and over a restart of the control plane in their midst."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hostler.control.kernel.agent_commands import AdvanceAgents, CreateRollout, MoveRollout, RolloutSettings
from support.control import ADMIN, FrozenClock, fleet_in
from support.keys import Keys
from support.rolling import AGENTS, NEW, OLD, ROLLOUTS, Nodes, rolling

FLEET = ("eu", "eu", "us", "us", "us")


async def test_API_20_LC_15_a_rollout_goes_wave_by_wave_and_is_seen_going(tmp_path: Path) -> None:
    async with rolling(tmp_path, *FLEET) as at:
        made = await at.create(settings={"boundary": "region"})
        assert [(wave["boundary"], wave["nodes"]) for wave in made["waves"]] == [
            ("canary", ["gpu-2"]),
            ("eu", ["gpu-0", "gpu-1"]),
            ("us", ["gpu-3", "gpu-4"]),
        ]
        rollout_id = made["rollout_id"]
        begun = await at.show(rollout_id)
        assert (begun["state"], begun["states"]) == ("running", {"pending": 4, "running": 1})
        assert await at.work()
        over = await at.show(rollout_id)
        assert (over["state"], over["states"], over["nodes"]) == ("succeeded", {"succeeded": 5}, 5)
        assert [(wave["index"], wave["boundary"], wave["states"]) for wave in over["wave_list"]] == [
            (0, "canary", {"succeeded": 1}),
            (1, "eu", {"succeeded": 2}),
            (2, "us", {"succeeded": 2}),
        ]
        assert {node["agent_version"] for node in over["members"]["items"]} == {NEW}
        assert {node["run_state"] for node in over["members"]["items"]} == {"succeeded"}


async def test_API_20_nodes_come_in_pages_of_a_wave_or_a_state(tmp_path: Path) -> None:
    async with rolling(tmp_path, *FLEET) as at:
        rollout_id = (await at.create(settings={"boundary": "region"}))["rollout_id"]
        seen, cursor = [], ""
        while True:
            page = (await at.show(rollout_id, page_size=2, cursor=cursor))["members"]
            seen += [(node["wave"], node["node_id"]) for node in page["items"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        assert seen == sorted(seen)
        assert len(set(seen)) == len(FLEET)
        assert len((await at.show(rollout_id, wave=1))["members"]["items"]) == 2
        (running,) = (await at.show(rollout_id, node_state="running"))["members"]["items"]
        assert running["node_name"] == "gpu-2"


async def test_API_20_a_dry_run_answers_200_and_leaves_nothing(tmp_path: Path) -> None:
    async with rolling(tmp_path, *FLEET) as at:
        plan = await at.create(200, dry_run=True, settings={"canary": 2})
        assert (plan["rollout_id"], [len(wave["nodes"]) for wave in plan["waves"]]) == ("", [2, 3])
        assert (await at.admin.get(ROLLOUTS)).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"settings": {"canary": 0}}, "invalid_request", "/settings/canary"),
        ({"settings": {"success_percent": 101}}, "invalid_request", "/settings/success_percent"),
        ({"settings": {"speed": 9}}, "unknown_field", "/settings"),
        ({"settings": {"canary": "many"}}, "invalid_request", "/settings/canary"),
        ({"version": "9.9.9"}, "release_missing", "/version"),
        ({"nodes": ["nobody"]}, "unknown_target", "/nodes"),
        ({"surprise": 1}, "unknown_field", ""),
    ],
)
async def test_API_20_a_wrong_request_is_refused_with_its_pointer(
    body: dict[str, Any], code: str, pointer: str, tmp_path: Path
) -> None:
    async with rolling(tmp_path, "eu") as at:
        answer = await at.admin.post(ROLLOUTS, json={"version": NEW} | body)
        assert answer.status_code == 422 or answer.status_code == 400, answer.text
        problem = answer.json()
        assert problem["error_code"] == code
        assert problem.get("pointer", "").startswith(pointer) or not pointer


async def test_API_20_lists_and_lookups_refuse_what_cannot_be(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu") as at:
        for path, status in (
            (f"{ROLLOUTS}?state=jolly", 400),
            (f"{ROLLOUTS}/rol_none", 404),
            (f"{ROLLOUTS}?cursor=x!", 422),
        ):
            answer = await at.admin.get(path)
            assert answer.status_code in (status, 422), (path, answer.text)
        rollout_id = (await at.create())["rollout_id"]
        for query in ({"wave": "one"}, {"node_state": "lost"}, {"cursor": "bm9wZQ"}, {"page_size": "0"}):
            answer = await at.admin.get(f"{ROLLOUTS}/{rollout_id}", params=query)
            assert 400 <= answer.status_code < 500, (query, answer.text)


async def test_API_20_LC_16_people_pause_resume_approve_abort_and_turn_back(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu", "eu") as at:
        made = await at.create(settings={"approval": "after_canary"})
        path = f"{ROLLOUTS}/{made['rollout_id']}"
        assert await at.post(f"{path}/pause", reason="lunch") == {"rollout_id": made["rollout_id"], "state": "paused"}
        assert (await at.show(made["rollout_id"]))["reason"] == "lunch"
        await at.work()
        assert (await at.post(f"{path}/resume"))["state"] == "running"
        await at.work()
        assert (await at.show(made["rollout_id"]))["state"] == "awaiting_approval"
        await at.post(f"{path}/pause")
        assert (await at.post(f"{path}/resume", retry_failed=True))["state"] == "awaiting_approval"
        assert (await at.post(f"{path}/approve", wave=1))["state"] == "running"
        await at.work(at.nodes[1])
        now = await at.show(made["rollout_id"])
        assert (now["state"], now["failed_node"], now["error_code"]) == ("paused", "gpu-1", "upgrade_rolled_back")
        assert "no certificate in 90 s" in now["reason"]
        assert (await at.post(f"{path}/abort"))["state"] == "aborted"
        assert (await at.post(f"{path}/pause", 409))["error_code"] == "rollout_over"
        (listed,) = (await at.admin.get(ROLLOUTS, params={"state": "aborted"})).json()["items"]
        assert listed["rollout_id"] == made["rollout_id"]


async def test_LC_16_rollback_of_a_finished_rollout_over_http(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu") as at:
        rollout_id = (await at.create())["rollout_id"]
        await at.work()
        assert (await at.post(f"{ROLLOUTS}/{rollout_id}/rollback", reason="it leaks"))["state"] == "rolling_back"
        await at.work()
        over = await at.show(rollout_id)
        assert (over["state"], over["states"]) == ("rolled_back", {"rolled_back": 2})
        assert {node["agent_version"] for node in over["members"]["items"]} == {OLD}


async def test_API_20_tenants_neither_see_nor_move_rollouts(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu") as at:
        rollout_id = (await at.create())["rollout_id"]
        tenant = await at.api.client("tenant_admin")
        for answer in (
            await tenant.get(ROLLOUTS),
            await tenant.get(f"{ROLLOUTS}/{rollout_id}"),
            await tenant.post(f"{ROLLOUTS}/{rollout_id}/abort", json={}),
            await tenant.post(ROLLOUTS, json={"version": NEW}),
        ):
            assert (answer.status_code, answer.json()["error_code"]) == (403, "scope_denied")


# -- DM-07: the rows are all there is ---------------------------------------------------------------


async def test_DM_07_a_control_plane_that_restarts_in_mid_rollout_goes_on_from_its_rows(tmp_path: Path) -> None:
    keys, clock = Keys(), FrozenClock()
    settings = RolloutSettings(soak_seconds=60, safety_policy="force", boundary="region")
    async with fleet_in(tmp_path, keys=keys, clock=clock, settings=AGENTS) as fleet:
        first = Nodes(fleet)
        await first.prepare(*FLEET)
        command = CreateRollout(
            actor=ADMIN, rollout_id="rol_1", target_version=NEW, settings=settings, correlation_id="c"
        )
        await fleet.execute(command)
        await first.work()
        assert of(tmp_path, "soaking") == 1
    async with fleet_in(tmp_path, keys=keys, clock=clock, settings=AGENTS) as fleet:  # restarted while it soaks
        second = after_restart(fleet, first)
        await come_back(second)
        await second.pass_time(60_000)
        assert (of(tmp_path, "succeeded"), of(tmp_path, "running")) == (1, 2)
        assert await second.work(most=1)  # one node stages, then the control plane is gone again
    async with fleet_in(tmp_path, keys=keys, clock=clock, settings=AGENTS) as fleet:
        third = after_restart(fleet, second)
        await come_back(third)
        for _ in range(4):
            await third.work()
            await third.pass_time(60_000)
        assert rows(tmp_path, "SELECT state, reason FROM agent_rollouts") == [("succeeded", "")]
        assert of(tmp_path, "succeeded") == len(FLEET)
        tries = rows(tmp_path, "SELECT tries, count(*) FROM agent_rollout_nodes GROUP BY tries")
        assert tries == [(1, len(FLEET))], "nobody was begun twice"
        begun = rows(tmp_path, "SELECT count(*) FROM events WHERE type = 'rollout.wave_started'")
        assert begun == [(3,)]


async def test_DM_07_a_paused_rollout_stays_paused_over_a_restart_and_its_way_back_goes_on(tmp_path: Path) -> None:
    keys, clock = Keys(), FrozenClock()
    settings = RolloutSettings(soak_seconds=0, safety_policy="force", canary=2)
    async with fleet_in(tmp_path, keys=keys, clock=clock, settings=AGENTS) as fleet:
        first = Nodes(fleet)
        await first.prepare("eu", "eu", "eu")
        await fleet.execute(
            CreateRollout(actor=ADMIN, rollout_id="rol_1", target_version=NEW, settings=settings, correlation_id="c")
        )
        while of(tmp_path, "rolled_back") == 0:
            await first.work(first.nodes[1], most=1)
    async with fleet_in(tmp_path, keys=keys, clock=clock, settings=AGENTS) as fleet:
        second = after_restart(fleet, first)
        await come_back(second, NEW)
        await second.work()
        await second.pass_time(1_000)
        await second.work()
        assert rows(tmp_path, "SELECT state, error_code FROM agent_rollouts") == [("paused", "upgrade_rolled_back")]
        assert (of(tmp_path, "rolled_back"), of(tmp_path, "pending")) == (2, 1)
        paused = rows(tmp_path, "SELECT count(*) FROM events WHERE action = 'rollout.pause'")
        assert paused == [(1,)]
        move = MoveRollout(actor=ADMIN, rollout_id="rol_1", action="abort", correlation_id="c")
        assert await fleet.execute(move) == "aborted"
        await fleet.execute(AdvanceAgents())
        ended = rows(tmp_path, "SELECT count(*) FROM agent_rollouts WHERE finished_at_ms > 0")
        assert ended == [(1,)]


def after_restart(fleet: Any, before: Nodes) -> Nodes:
    """The nodes are what they were."""
    nodes = Nodes(fleet)
    nodes.nodes = before.nodes
    return nodes


async def come_back(nodes: Nodes, version: str = "") -> None:
    """Every node dials again, as what it ran."""
    known = dict(await _versions(nodes))
    for node in nodes.nodes:
        await nodes.hello(node, known[node.node_id])


async def _versions(nodes: Nodes) -> list[tuple[str, str]]:
    page = await nodes.fleet.engine.reader.nodes(None, None)
    return [(node.node_id, node.agent_version) for node in page.items]


def rows(directory: Path, sql: str) -> list[Any]:
    db = sqlite3.connect(f"file:{directory / 'control.db'}?mode=ro", uri=True)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def of(directory: Path, state: str) -> int:
    """How many nodes are in that state."""
    found: int = rows(directory, f"SELECT count(*) FROM agent_rollout_nodes WHERE state = '{state}'")[0][0]
    return found
