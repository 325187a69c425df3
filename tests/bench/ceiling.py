"""P4: the control plane alone: 500 fake agents, one operation of 1000 tasks, and 1000 submits.

`python -m tests.bench.ceiling` prints JSON. The agents are one process with a real mutual-TLS session each; they
answer every task at once with a signed receipt, so that what is measured is the control plane.
"""

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil

from hostler.base.clock import SystemClock
from hostler.cli.operations_api import submit_body
from hostler.control.config import load
from hostler.control.kernel.commands import Actor, CreateEnrolmentToken, EnrollNode, RecordCertificate
from hostler.control.service import open_engine
from hostler.pki.authority import Authority
from hostler.pki.keys import new_p256
from hostler.pki.tokens import new_enrolment_token
from hostler.pki.x509 import read_identity
from support.house import ORG, PATH, PROJECT, House, open_house

from .latency import follow

CALLERS = 8


async def enrol_all(home: Path, count: int) -> list[dict[str, str]]:
    """Enrols straight into the store, before the control plane is started: the door is not what is measured."""
    engine, keys = await open_engine(load(home / "control.toml"))
    authority = Authority(keys.ca, keys.ca_pem, keys.trust.keyset.trust_domain)
    system, now_ms = Actor(kind="system", name="bench", role="platform_admin"), SystemClock().now_ms()
    made = []
    for number in range(count):
        token, key = new_enrolment_token(), new_p256()
        await engine.execute(
            CreateEnrolmentToken(
                actor=system, token_id=token.token_id, token_sha256=token.sha256, node_name=f"fake-{number}",
                org_id=ORG, project_id=PROJECT, labels={"fleet": "fake"}, expires_at_ms=now_ms + 3_600_000,
            )
        )  # fmt: skip
        node = await engine.execute(
            EnrollNode(
                token_id=token.token_id, token_sha256=token.sha256, public_key_spki=key.public.spki_der,
                thumbprint=key.public.key_id, agent_version="fake", labels={"fleet": "fake"}, peer="bench",
            )
        )  # fmt: skip
        chain = authority.issue_node(node.node_id, key.public, now_ms)
        issued = read_identity(chain)
        await engine.execute(
            RecordCertificate(
                node_id=node.node_id, serial=issued.serial, thumbprint=issued.thumbprint,
                not_before_ms=issued.not_before_ms, not_after_ms=issued.not_after_ms,
            )
        )  # fmt: skip
        made.append({"node_id": node.node_id, "key": key.to_pem().decode(), "certificate": chain.decode()})
    await engine.close()
    return made


def prepare_fleet(house: House, count: int) -> list[dict[str, str]]:
    """Enrols the fleet and starts the control plane; nobody is connected yet."""
    entries = asyncio.run(enrol_all(house.home, count))
    (house.home / "nodes.json").write_text(json.dumps(entries))
    house.serve()
    return entries


def start_fleet(house: House) -> subprocess.Popen[bytes]:
    """Connects them all, which takes what was submitted meanwhile as well."""
    arguments = [sys.executable, "-m", "tests.bench.fake_fleet", str(house.home)]
    address = f"127.0.0.1:{house.ports.node}"
    fleet = subprocess.Popen([*arguments, address, "house.test"], stdout=subprocess.PIPE)
    assert fleet.stdout is not None
    assert fleet.stdout.readline() == b"READY\n"
    return fleet


def one_operation(house: House, replicas: int, tasks: int) -> float:
    body = submit_body("node.smoke.noop@v1", inputs={}, nodes=(), labels={"fleet": "fake"}, replicas=replicas)
    t0 = time.perf_counter()
    operation_id = house.client.call("POST", PATH, body=body)["operation_id"]
    follow(house, operation_id)
    took = time.perf_counter() - t0
    ended = house.operation(operation_id)
    assert ended["tasks_succeeded"] == tasks, (ended["status"], ended["tasks_succeeded"])
    return tasks / took


def submits(house: House, count: int, nodes: list[str]) -> dict[str, float]:
    """`count` operations of one task each by several callers; the rate of the submit calls alone."""
    token = (house.home / "admin.token").read_text()

    def call(share: int) -> None:
        # the thinnest client there is: the callers share the machine with what they measure
        http = HTTPConnection("127.0.0.1", house.ports.http)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        for number in range(share, count, CALLERS):
            body = submit_body("node.smoke.noop@v1", inputs={}, nodes=(nodes[number % len(nodes)],), labels={})
            http.request("POST", PATH, json.dumps(body), headers)
            answer = http.getresponse()
            assert answer.status == 202, answer.read()
            answer.read()
        http.close()

    server = psutil.Process(house.pids["control"])
    before = sum(server.cpu_times()[:2])
    t0 = time.perf_counter()
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(call, range(CALLERS)))
    took = time.perf_counter() - t0
    return {"per_s": round(count / took), "per_server_cpu_s": round(count / (sum(server.cpu_times()[:2]) - before))}


def measure(agents: int = 500, replicas: int = 2, rounds: int = 5) -> dict[str, Any]:
    with open_house() as house:
        nodes = [entry["node_id"] for entry in prepare_fleet(house, agents)]
        alone = submits(house, 1000, nodes)
        fleet = start_fleet(house)
        try:
            tasks = agents * replicas
            one_operation(house, replicas, tasks)
            server = psutil.Process(house.pids["control"])
            before = sum(server.cpu_times()[:2])
            rates = sorted(one_operation(house, replicas, tasks) for _ in range(rounds))
            used = sum(server.cpu_times()[:2]) - before
            submitted = submits(house, 1000, nodes)
            return {
                "p4_tasks_per_s": {
                    "median": round(rates[len(rates) // 2]),
                    "min": round(rates[0]),
                    "max": round(rates[-1]),
                },
                "p4_tasks_per_server_cpu_s": round(rounds * tasks / used),
                "p4_submits": alone,
                "p4_submits_while_each_is_executed": submitted,
                "agents": agents,
                "server_rss_mib": round(server.memory_info().rss / 2**20),
            }
        finally:
            fleet.terminate()
            fleet.wait()


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
