"""LC-08, API-20: who looks at a rollout that stands still sees which node waits for whom, and what to type."""

import json
from pathlib import Path

import pytest

from support.rolling import NEW
from support.rollout_desk import desk

pytestmark = pytest.mark.timeout(90)


async def test_LC_08_show_names_the_node_its_operator_and_the_command(tmp_path: Path) -> None:
    async with desk(tmp_path, "eu", "eu") as here:
        node = here.at.nodes[0]
        body = {"mode": "manual_install", "scenario": "in_place_upgrade", "target_version": NEW}
        made = await here.at.post(f"/api/v1/admin/nodes/{node.node_id}/agent-lifecycle", 201, **body)
        run_id, who = made["run"]["run_id"], made["run"]["requested_by"]
        rollout_id = (await here.at.create(settings={"canary": 2}))["rollout_id"]
        await here.at.work()
        page = await here.ok("show", rollout_id)
        said = f"waits for a person (run of {who}): hostler agents runs {run_id}"
        assert f"next: node gpu-0 {said}" in page
        assert page.count(said) == 2, "what comes next, and the node's own line"
        (waits,) = json.loads(await here.ok("show", rollout_id, "--output", "json"))["waiting_for_people"]
        assert (waits["waiting_for"], waits["blocking_run_id"]) == ("waiting_for_operator", run_id)
        await here.at.post(f"/api/v1/admin/agent-runs/{run_id}/cancel")
        await here.at.pass_time(1_000)
        await here.at.work()
        over = await here.at.show(rollout_id)
        assert (over["state"], over["waiting_for_people"]) == ("succeeded", [])
