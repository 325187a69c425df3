"""SK-13, SK-14, PF-03: a real Ray node, in a unit and not as root, joins a real head that asks for a token."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root, need_slow
from hostler.agent.host.host import Host
from hostler.agent.steps import cluster_join, cluster_verify
from hostler.agent.steps.contract import Truth
from hostler.base.errors import HostlerError
from hostler.catalog.credentials import RayJoin
from support.joining import joining, verifying
from support.machines import Machine, machine_of_this
from support.ports import next_port
from support.ray import PLACE, USER, kept_tree, ray_tree, unit

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("machines")]

FILES = {"environment": "/etc/ray/node.env", "token": "/etc/ray/token"}
UNITS = "/etc/systemd/system"
SMALL = "--object-store-memory=80000000"


@dataclass(frozen=True)
class Head:
    machine: Machine
    port: int
    dashboard: int
    token: str


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    need_slow("Ray's packages are fetched first, 400 MB", there=kept_tree().exists())
    need("systemd-nspawn", "nsenter")
    need_root()
    port, dashboard = next_port(), next_port()
    token = secrets.token_hex(24)
    options = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=1", SMALL]
    options += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--temp-dir=/tmp/head"]
    tokens = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/run/ray-head-token"}
    files = {
        f"{UNITS}/ray-head.service": unit(*options, **tokens),
        f"{UNITS}/ray-node.service": unit("$RAY_NODE_OPTIONS", SMALL, environment_file=FILES["environment"]),
        "/usr/share/head-token": token,
    }
    binds = {ray_tree(): PLACE}
    with machine_of_this(tmp_path_factory.mktemp("ray"), "hostler-ray", files, binds) as found:
        found.run("install", "-m", "0400", "-o", USER, "/usr/share/head-token", "/run/ray-head-token")
        assert found.run("systemctl", "start", "ray-head.service").returncode == 0
        yield Head(found, port, dashboard, token)


def params(head: Head, **more: Any) -> dict[str, Any]:
    cluster = {
        "backend": "ray",
        "head": f"127.0.0.1:{head.port}",
        "dashboard": f"http://127.0.0.1:{head.dashboard}",
        "node_ip": "127.0.0.2",
        "owner": USER,
        "num_cpus": 1,
        "resources": {"hostler": 2},
        "labels": {"pool": "a"},
    }
    return {"cluster": cluster, "node": "n1", "files": FILES, **more}


async def test_PF_03_a_node_joins_is_alive_and_dead_as_the_head_says(head: Head, tmp_path: Path) -> None:
    host = Host(root=head.machine.root, spool=tmp_path)
    credential = RayJoin(address=f"127.0.0.1:{head.port}", token=head.token)
    given = params(head, units=["ray-node.service"])
    await _up(host, head)
    joined = await cluster_join.KIND.apply(joining(host, given, credential, deadline_s=150))
    assert joined.outputs["condition"] == "alive"
    token = host.path(FILES["token"]).stat()
    assert token.st_mode & 0o777 == 0o400
    assert head.token not in host.path(FILES["environment"]).read_text()
    verified = await cluster_verify.KIND.apply(verifying(host, params(head, within_seconds=60), deadline_s=90))
    assert verified.outputs["condition"] == "alive"
    raylet = head.machine.run("ps", "-C", "raylet", "-o", "user=").stdout.split()
    assert raylet == [USER, USER]
    assert (await cluster_join.KIND.probe(joining(host, given))).truth is Truth.DONE
    assert await _node(host, head) == ({"hostler": 2.0, "CPU": 1.0}, "a")

    again = await cluster_join.KIND.apply(joining(host, given, credential, deadline_s=60))
    assert not again.changed

    head.machine.run("systemctl", "stop", "ray-node.service")
    said = await _refusal(host, head)
    assert said.startswith("node_not_ready: ")
    assert "node 127.0.0.2 is dead" in said

    host.path(FILES["token"]).write_text("f" * 48)
    assert "the head answers with status 40" in await _refusal(host, head)


async def _refusal(host: Host, head: Head) -> str:
    """What `cluster.verify` fails with, once it does."""
    while True:
        try:
            await cluster_verify.KIND.apply(verifying(host, params(head, within_seconds=0)))
        except HostlerError as err:
            return f"{err.code}: {err.message}"
        await asyncio.sleep(0.5)


async def _up(host: Host, head: Head) -> None:
    """Waits for the head's API, which takes a while on a busy machine."""
    async with asyncio.timeout(200):
        while True:
            try:
                answer = await host.net.request(
                    "GET", f"http://127.0.0.1:{head.dashboard}/api/v0/nodes", headers=_bearer(head)
                )
                if answer.status == 200:
                    return
            except OSError:
                assert head.machine.run("systemctl", "is-active", "ray-head.service").stdout.strip() == "active"
            await asyncio.sleep(0.3)


async def _node(host: Host, head: Head) -> tuple[dict[str, float], str]:
    """What the node said of itself: that the options came through systemd's two rounds of quotes whole."""
    import json

    url = f"http://127.0.0.1:{head.dashboard}/api/v0/nodes?detail=true"
    answer = await host.net.request("GET", url, headers=_bearer(head))
    nodes = json.loads(answer.body)["data"]["result"]["result"]
    (ours,) = [node for node in nodes if node["node_ip"] == "127.0.0.2"]
    total = ours["resources_total"]
    return {name: total[name] for name in ("hostler", "CPU")}, ours["labels"]["pool"]


def _bearer(head: Head) -> dict[str, str]:
    return {"Authorization": f"Bearer {head.token}"}
