"""API-20, LC-15, LC-16: what hostile, hurried and confused clients send about rollouts."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from support.rolling import NEW, ROLLOUTS, rolling

MOVES = ("approve", "pause", "resume", "abort", "rollback")


async def test_API_20_of_rollouts_made_at_once_over_the_same_nodes_one_is_made(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu", "us") as at:
        body = {"version": NEW, "settings": {"soak_seconds": 0, "safety_policy": "force"}}
        answers = await asyncio.gather(*(at.admin.post(ROLLOUTS, json=body) for _ in range(8)))
        assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 7}
        assert {answer.json().get("error_code") for answer in answers} == {None, "rollout_open"}
        assert len((await at.admin.get(ROLLOUTS)).json()["items"]) == 1
        runs = (await at.admin.get("/api/v1/admin/agent-runs")).json()["items"]
        assert len(runs) == 1, "and no node has two runs"
        await at.work()
        assert (await at.show(runs[0]["rollout_id"]))["state"] == "succeeded"


async def test_API_20_rollouts_that_overlap_in_one_node_are_refused_and_others_go_on(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu", "us") as at:
        first = (await at.create(nodes=["gpu-0", "gpu-1"]))["rollout_id"]
        assert (await at.create(409, nodes=["gpu-1", "gpu-2"]))["error_code"] == "rollout_open"
        second = (await at.create(nodes=["gpu-2"]))["rollout_id"]
        await at.work()
        assert [(await at.show(each))["state"] for each in (first, second)] == ["succeeded", "succeeded"]
        again = await at.create(nodes=["gpu-0"], settings={"canary": 1}, status=422)
        assert again["error_code"] == "empty_target", "it runs that version already"


async def test_API_20_the_same_order_from_many_at_once_is_taken_once(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu", "eu") as at:
        rollout_id = (await at.create())["rollout_id"]
        for move, code in (("pause", "rollout_over"), ("resume", "rollout_over"), ("abort", "rollout_over")):
            orders = (at.admin.post(f"{ROLLOUTS}/{rollout_id}/{move}", json={}) for _ in range(6))
            answers = await asyncio.gather(*orders)
            assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 5}, move
            assert {each.json()["error_code"] for each in answers if each.is_error} == {code}
        lines = await _audited(at, rollout_id)
        assert lines == Counter({"rollout.pause": 1, "rollout.resume": 1, "rollout.abort": 1, "rollout.create": 1})


async def test_A4_bodies_that_are_huge_deep_or_strange_are_refused_in_one_answer(tmp_path: Path) -> None:
    async with rolling(tmp_path, "eu") as at:
        strange: list[Any] = [
            b'{"version": "' + b"1" * 3_000_000 + b'"}',
            b'{"labels": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
            b'{"version": "1.1.0", "nodes": [' + b'"n",' * 10_000 + b'"n"]}',
            b'{"version": "1.1.0", "settings": {"canary": 99999999999999999999999}}',
            b'{"version": "1.1.0", "settings": {"soak_seconds": 1e400}}',
            b'{"version": "1.1.0", "settings": {"order": ["' + b"x" * 500 + b'"], "boundary": "' + b"y" * 500 + b'"}}',
            b'{"version": "1.1.0\\u0000", "nodes": ["\\ud800"]}',
            b"[]", b"", b"null", b"\xff\xfe", b'{"version": "1.1.0"} trailing',
        ]  # fmt: skip
        for body in strange:
            answer = await at.admin.post(ROLLOUTS, content=body)
            assert 400 <= answer.status_code < 500, (body[:60], answer.status_code, answer.text[:200])
        rollout_id = (await at.create(settings={"approval": "each_wave"}))["rollout_id"]
        for move in MOVES:
            for body in (b'{"reason": "' + b"r" * 1_000_000 + b'"}', b'{"wave": 0, "force": true}', b"[", b"{} {}"):
                answer = await at.admin.post(f"{ROLLOUTS}/{rollout_id}/{move}", content=body)
                assert 400 <= answer.status_code < 500, (move, body[:40], answer.status_code)
        assert (await at.show(rollout_id))["state"] == "running"


async def _audited(at: Any, rollout_id: str) -> Counter[str]:
    rows = at.fleet.engine._db.execute(
        "SELECT action, count(*) FROM events WHERE resource_name = ? AND type LIKE 'rollout.c%' GROUP BY 1",
        (f"rollouts/{rollout_id}",),
    )
    return Counter(dict(rows.fetchall()))
