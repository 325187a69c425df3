"""A policy engine with the operator's Rego beside a served control plane (AZ-11, OD-35)."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.cli.demo_files import program
from hostler.control.policy_engine.settings import PolicyEngineSettings
from hostler.pki.storage import write_private
from support.allocations import profiles
from support.builders import definition
from support.plane import Plane, operations, plane, prepare, submission
from support.workloads import until

POLICY = """package house.rules

deny contains reason if {
    input.asks_for == "operation"
    input.role == "project_member"
    reason := sprintf("%s runs no %s", [input.actor, input.operation_type])
}

deny contains "two nodes at most" if {
    input.asks_for == "allocation"
    input.targets.node_count > 2
}

deny contains "the hour of the long rule" if {
    input.inputs.text == "endless"
    numbers.range(1, 1000000000)[_] == -1
}
"""
ALLOCATIONS = "/api/v1/projects/train/allocations"


def settings(folder: Path, source: str = POLICY, **more: Any) -> PolicyEngineSettings:
    path = folder / "rules.rego"
    path.write_text(source)
    return PolicyEngineSettings(files=(str(path),), query="data.house.rules.deny", **{"timeout_ms": 2000} | more)


def workers() -> set[int]:
    """Processes of engines that this process has started."""
    found = set()
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if b"hostler.control.policy_engine.worker" in words and parent == str(os.getpid()):
            found.add(int(each.name))
    return found


def explain(folder: Path, control: Plane) -> str:
    write_private(folder / "token", control.http.headers["authorization"].removeprefix("Bearer ").encode())
    config = folder / "cli.toml"
    config.write_text(f'server = "{control.ports.server}"\ntoken_file = "{folder}/token"\nproject = "train"\n')
    command = [program("hostler"), "--config", str(config), "policy", "explain", "demo.write"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


async def audited(control: Plane, action: str) -> list[Any]:
    listed = await control.call("GET", "/api/v1/admin/audit-logs", params={"action": action})
    return [line for line in listed["items"] if line["result"] == "refused"]


async def test_AZ_11_the_operators_rules_refuse_over_http_and_say_why(tmp_path: Path) -> None:
    async with plane(tmp_path, policy_engine=settings(tmp_path)) as control:
        await control.publish(definition(), *profiles())
        node = await control.enroll("gpu-1")
        assert await control.submit(node)
        async with await control.principal("mia", "project_member", "acme", "train") as member:
            answer = await member.post(operations(), json=submission(node))
            problem = answer.json()
            assert (answer.status_code, problem["error_code"]) == (403, "policy_denied")
            assert problem["detail"] == "mia runs no demo.write"
        (line,) = await audited(control, "operation.submit")
        assert (line["actor"], line["error_code"], line["body"]["message"]) == (
            "mia", "policy_denied", "mia runs no demo.write",
        )  # fmt: skip
        refused = await control.http.post(ALLOCATIONS, json={"org_id": "acme", "node_count": 3})
        assert (refused.status_code, refused.json()["detail"]) == (403, "two nodes at most")
        assert (await control.http.post(ALLOCATIONS, json={"org_id": "acme", "node_count": 1})).status_code == 202
        shown = await control.call("GET", "/api/v1/projects/train/operation-policies/demo.write")
        assert shown["asked_besides"] == "data.house.rules.deny"
        explained = await asyncio.to_thread(explain, tmp_path, control)
        assert "and the policy engine (data.house.rules.deny), which may refuse what all this allows" in explained
    await until(lambda: not workers())


async def test_AZ_11_the_policy_of_the_house_stands_whatever_the_engine_says(tmp_path: Path) -> None:
    silent = "package house.rules\ndeny := []\n"
    async with plane(tmp_path, policy_engine=settings(tmp_path, silent)) as control:
        await control.publish()
        node = await control.enroll("gpu-1")
        await control.call("PUT", "/api/v1/admin/operation-policies/demo.write", json={"enabled": False})
        answer = await control.http.post(operations(), json=submission(node))
        assert (answer.status_code, answer.json()["error_code"]) == (403, "policy_denied")
        assert "policy does not allow" in answer.json()["detail"]


async def test_OD_35_the_house_lends_and_cleans_while_the_engine_is_away(tmp_path: Path) -> None:
    """What a chain asks for is nobody's request: a node is cleaned for the next tenant without the engine's consent."""
    rules = 'package house.rules\ndeny contains "no operation at all" if input.asks_for == "operation"\n'
    async with plane(tmp_path, policy_engine=settings(tmp_path, rules)) as control:
        await control.publish(definition(), *profiles())
        node = await control.enroll("pool-1", org="", project="", pool=True)
        made = await control.call("POST", ALLOCATIONS, 202, json={"org_id": "acme", "node_count": 1})
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
        async with node.session() as session:
            (provision,) = await session.take()
            await session.report(node.finished(provision))
            await control.call("POST", f"{ALLOCATIONS}/{made['allocation_id']}/release", 202)
            (deprovision,) = await session.take()
            assert deprovision.trigger_source == "allocation_release"


async def test_AZ_11_without_an_answer_nothing_runs_and_the_engine_comes_back(tmp_path: Path) -> None:
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    rules = settings(tmp_path, timeout_ms=400, processes=1, memory_mib=8192)
    async with plane(tmp_path, policy_engine=rules) as control:
        await control.publish(definition(inputs=text))
        node = await control.enroll("gpu-1")
        stuck = await control.http.post(operations(), json=submission(node, inputs={"text": "endless"}))
        assert (stuck.status_code, stuck.json()["error_code"]) == (403, "policy_denied")
        assert stuck.json()["detail"] == "the policy engine is away: it gave no answer within 0.4 s"
        assert await back(control, node)
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
        assert await back(control, node)
        said = {line["body"]["message"].partition(":")[0] for line in await audited(control, "operation.submit")}
        assert said == {"the policy engine is away"}


async def back(control: Plane, node: Any) -> bool:
    """Whether requests are taken again; until then each is refused, and none gets through unasked."""
    async with asyncio.timeout(20):
        while True:
            answer = await control.http.post(operations(), json=submission(node))
            if answer.status_code == 202:
                return True
            assert answer.json()["error_code"] == "policy_denied"
            await asyncio.sleep(0.05)


async def test_a_broken_file_stops_the_start_and_names_the_line(tmp_path: Path) -> None:
    config = prepare(
        tmp_path, policy_engine=settings(tmp_path, "package house.rules\n\ndeny contains x if {\n  1 ==\n}\n")
    )
    from hostler.control.service import serve

    with pytest.raises(HostlerError, match=r"rules\.rego:4: ") as caught:
        await serve(config)
    assert caught.value.code == "invalid_config"
    await until(lambda: not workers())
