"""SK-13, SK-14: what a join writes for Ray, and what the head's list of nodes means."""

import json
import os
import pwd
import shlex
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.clusters.ray import environment_file, judge
from hostler.agent.host.host import Host
from hostler.agent.steps import cluster_join
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.credentials import RayJoin
from hostler.catalog.params.cluster import Ray
from support.joining import joining
from support.kube_api import serving

FILES = {"environment": "/etc/ray/node.env", "token": "/etc/ray/token"}
DESCRIBED: dict[str, Any] = {
    "backend": "ray",
    "head": "10.0.0.1:6379",
    "dashboard": "http://127.0.0.1:1",
    "node_ip": "10.0.0.2",
    "owner": pwd.getpwuid(os.geteuid()).pw_name,
}
TOKEN = RayJoin(address="10.0.0.1:6379", token="canary-token-0123456789")


def node(**more: Any) -> dict[str, Any]:
    return {"node_ip": "10.0.0.2", "state": "ALIVE", "is_head_node": False, "state_message": None, **more}


def listed(*nodes: dict[str, Any]) -> bytes:
    return json.dumps({"result": True, "data": {"result": {"total": len(nodes), "result": nodes}}}).encode()


def test_the_options_survive_both_rounds_of_quotes() -> None:
    """systemd takes them off the variable's value, then off the words it splits it into, as a shell would."""
    more = {"owner": "ray", "resources": {"b": 2, "a": 1}, "labels": {"pool": "x"}, "num_cpus": 3, "num_gpus": 1}
    text = environment_file(convert(DESCRIBED | more, Ray), "/etc/ray/token")
    variables = dict(shlex.split(line)[0].partition("=")[::2] for line in text.splitlines())
    assert shlex.split(variables["RAY_NODE_OPTIONS"]) == [
        "--address=10.0.0.1:6379",
        "--node-ip-address=10.0.0.2",
        "--num-cpus=3",
        "--num-gpus=1",
        '--resources={"a":1,"b":2}',
        "--labels=pool=x",
    ]
    assert (variables["RAY_AUTH_MODE"], variables["RAY_AUTH_TOKEN_PATH"]) == ("token", "/etc/ray/token")
    assert "RAY_AUTH_TOKEN_PATH" not in environment_file(
        convert(DESCRIBED | {"owner": "ray", "auth": "none"}, Ray), "/t"
    )


@pytest.mark.parametrize(
    ("body", "ready", "condition"),
    [
        (listed(node()), True, "alive"),
        (listed(node(state="DEAD", state_message="gone\nfor good"), node()), True, "alive"),
        (listed(node(state="DEAD", state_message="gone\nfor good")), False, "node 10.0.0.2 is dead: gone for good"),
        (listed(node(state="DEAD")), False, "node 10.0.0.2 is dead: no reason given"),
        (listed(node(is_head_node=True)), False, "the head lists no node 10.0.0.2"),
        (listed(node(node_ip="10.0.0.3")), False, "the head lists no node 10.0.0.2"),
        (listed(), False, "the head lists no node 10.0.0.2"),
        (b"<html>", False, "the head's answer is no list of nodes"),
        (b'{"data": []}', False, "the head's answer is no list of nodes"),
        (b"\xff", False, "the head's answer is no list of nodes"),
    ],
)
def test_SK_14_only_a_living_node_of_that_address_is_ready(body: bytes, ready: bool, condition: str) -> None:
    assert judge(body, "10.0.0.2") == (ready, ready, condition)


def params(port: int, **more: Any) -> dict[str, Any]:
    described = DESCRIBED | {"dashboard": f"http://127.0.0.1:{port}"} | more.pop("cluster", {})
    return {"cluster": described, "node": "n1", "files": FILES, **more}


async def test_SK_13_the_token_belongs_to_ray_s_user_alone_and_goes_to_the_head(tmp_path: Path) -> None:
    root, more = tmp_path, {"owner": "nobody"} if os.geteuid() == 0 else {}
    asked: list[str] = []

    def answer(method: str, path: str, bearer: str, *_: Any) -> tuple[int, Any]:
        asked.append(bearer)
        return 200, json.loads(listed(node()))

    host = Host(root=root)
    with serving(answer) as port:
        given = params(port, cluster=more)
        await cluster_join.KIND.apply(joining(host, given, TOKEN))
        assert set(asked) == {TOKEN.token}
        assert (root / FILES["token"][1:]).stat().st_mode & 0o777 == 0o400
        assert TOKEN.token not in (root / FILES["environment"][1:]).read_text()
        assert not (await cluster_join.KIND.apply(joining(host, given, TOKEN))).changed
        elsewhere = params(port, cluster=more | {"head": "10.0.0.9:6379"})
        with pytest.raises(HostlerError) as caught:
            await cluster_join.KIND.apply(joining(host, elsewhere, TOKEN))
        assert caught.value.code == "joined_elsewhere"


@pytest.mark.parametrize(
    ("credential", "code"),
    [
        (RayJoin(address="10.0.0.66:6379", token="canary-token-0123456789"), "cluster_untrusted"),
        (RayJoin(address="10.0.0.1:6379", token="canary\r\nX-Other: 1"), "credential_mismatch"),
        (RayJoin(address="10.0.0.1:6379", token=""), "credential_mismatch"),
    ],
)
async def test_SK_13_a_credential_that_does_not_fit_is_not_written(
    tmp_path: Path, credential: RayJoin, code: str
) -> None:
    with pytest.raises(HostlerError) as caught:
        await cluster_join.KIND.apply(joining(Host(root=tmp_path), params(1, cluster={"owner": "nobody"}), credential))
    assert caught.value.code == code
    assert "canary" not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
