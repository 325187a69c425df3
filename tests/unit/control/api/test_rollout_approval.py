"""API-20: an approval over HTTP names its wave; two operators cannot approve two waves by looking at one."""

import asyncio
from pathlib import Path

from support.rolling import ROLLOUTS, rolling

GATED = {"boundary": "region", "approval": "each_wave"}


async def test_API_20_an_approval_without_its_wave_is_refused_with_a_pointer(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu", "us") as at:
        rollout_id = (await at.create(settings=GATED))["rollout_id"]
        await at.work()
        path = f"{ROLLOUTS}/{rollout_id}/approve"
        for body in ({}, {"wave": "1"}, {"wave": -1}, {"reason": "fine"}):
            answer = await at.admin.post(path, json=body)
            assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request"), answer.text
        assert (await at.post(path, 409, wave=2))["error_code"] == "rollout_moved"
        assert (await at.show(rollout_id))["state"] == "awaiting_approval"


async def test_API_20_of_two_operators_who_look_at_one_wave_one_approves_it(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu", "us") as at:
        rollout_id = (await at.create(settings=GATED))["rollout_id"]
        await at.work()
        wave = (await at.show(rollout_id))["wave"]
        path = f"{ROLLOUTS}/{rollout_id}/approve"
        both = await asyncio.gather(*(at.admin.post(path, json={"wave": wave}) for _ in range(2)))
        assert sorted(answer.status_code for answer in both) == [200, 409]
        await at.work()
        now = await at.show(rollout_id)
        assert (now["state"], now["wave"], now["approved_wave"]) == ("awaiting_approval", wave + 1, wave)
        assert (await at.post(path, 409, wave=wave))["error_code"] == "rollout_moved", "the first one, sent again"
