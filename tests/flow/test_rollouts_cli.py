"""`hostler rollouts` against a served API on a real store, whose nodes play their part (API-20, LC-15, LC-16)."""

import asyncio
import json
from pathlib import Path

import pytest

from support.rolling import NEW, OLD
from support.rollout_desk import Desk, desk

pytestmark = pytest.mark.timeout(90)
FORCE = ("--safety", "force", "--soak-seconds", "0")


async def test_API_20_a_rollout_from_the_command_line_to_its_end(tmp_path: Path) -> None:
    async with desk(tmp_path, "eu", "eu", "us") as here:
        shown = await here.ok("create", NEW, "--by", "region", "--order", "us", "--dry-run", *FORCE)
        assert f"{NEW} would go to 3 nodes in 3 waves" in shown
        assert shown.index("canary") < shown.index("us") < shown.index("eu")
        watching = here.begin("create", NEW, "--by", "region", "--approval", "after_canary", "--watch", *FORCE)
        rollout_id = await _made(here)
        await here.at.work()
        code, out, _ = await watching
        assert code == 1, "it waits for a person"
        assert f"next: wave 1 (eu) waits: hostler rollouts approve {rollout_id} --wave 1" in out
        assert "is running" in await here.ok("approve", rollout_id, "--wave", "1")
        following = here.begin("watch", rollout_id)
        await here.at.work()
        code, out, _ = await following
        assert (code, "succeeded" in out) == (0, True), out
        assert "3 of 3 nodes, wave 2 of 2" in await here.ok("list")
        page = await here.ok("show", rollout_id)
        assert [word in page for word in ("gpu-0", "gpu-2", "canary", "eu", "us", NEW)] == [True] * 6
        told = json.loads(await here.ok("show", rollout_id, "--node-state", "succeeded", "--output", "json"))
        assert len(told["members"]["items"]) == 3
        assert "is rolling_back" in await here.ok("rollback", rollout_id, "--reason", "it leaks")
        await here.at.work()
        assert "rolled_back" in await here.ok("list", "--state", "rolled_back")


async def test_LC_16_watch_says_which_node_stopped_it_and_what_comes_next(tmp_path: Path) -> None:
    async with desk(tmp_path, "eu", "eu", "eu") as here:
        await here.ok("create", NEW, "--label", "region=eu", *FORCE)
        rollout_id = await _made(here)
        await here.at.work(here.at.nodes[0])
        code, out, _ = await here.types("watch", rollout_id)
        assert code == 1
        assert "paused" in out
        assert "node gpu-0 (version_reported): no certificate in 90 s" in out
        assert f"next: hostler rollouts resume {rollout_id} [--retry-failed], or: hostler rollouts abort" in out
        page = await here.ok("show", rollout_id)
        assert "[upgrade_rolled_back]" in page
        assert OLD in page
        assert "is running" in await here.ok("resume", rollout_id, "--retry-failed")
        assert "is paused" in await here.ok("pause", rollout_id, "--reason", "lunch")
        assert "is aborted" in await here.ok("abort", rollout_id)
        code, _, err = await here.types("approve", rollout_id, "--wave", "1")
        assert (code, "[rollout_over]" in err) == (1, True), err


async def test_API_20_a_wrong_setting_is_one_sentence_and_exit_1(tmp_path: Path) -> None:
    async with desk(tmp_path, "eu") as here:
        code, _, err = await here.types("create", NEW, "--canary", "0")
        assert (code, "canary is between 1 and 1000" in err) == (1, True), err
        code, _, err = await here.types("create", "9.9.9")
        assert (code, "[release_missing]" in err) == (1, True), err


async def _made(here: Desk) -> str:
    """The one there is."""
    async with asyncio.timeout(20):
        while not (items := (await here.at.admin.get("/api/v1/admin/agent-rollouts")).json()["items"]):
            await asyncio.sleep(0.02)
    rollout_id: str = items[0]["rollout_id"]
    return rollout_id
