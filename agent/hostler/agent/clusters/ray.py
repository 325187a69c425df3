"""Ray: options and token for the node's unit; the head's API says which nodes are alive.

The unit runs `ray start --block $RAY_NODE_OPTIONS` with the environment file, as a user that is not root.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from hostler.agent.clusters.contract import Joining, Seen, Site, Wanted, printable
from hostler.agent.clusters.files import content_of
from hostler.agent.host.net import verifying
from hostler.base.errors import error
from hostler.catalog.credentials import RayJoin
from hostler.catalog.params.cluster import Cluster, Ray

_ADDRESS = re.compile(r"--address=([^\s\"']+)")
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}", re.ASCII)


class RayAdapter:
    def check(self, site: Site) -> None:
        return

    def name(self, cluster: Cluster) -> str:
        assert isinstance(cluster, Ray)
        return f"ray cluster at {cluster.head}"

    def elsewhere(self, site: Site) -> str:
        found = _ADDRESS.search(content_of(site, "environment").decode(errors="replace"))
        if found is None or found[1] == site.cluster.head:
            return ""
        return f"ray cluster at {printable(found[1])}"

    def wanted(self, site: Site) -> tuple[Wanted, ...]:
        cluster: Ray = site.cluster
        token = (Wanted("token", 0o400, owner=cluster.owner),) if cluster.auth == "token" else ()
        return (*token, Wanted("environment", 0o644, environment_file(cluster, site.files["token"]).encode()))

    def holds(self, site: Site) -> bool:
        return True  # whether it is the right token, the head says

    async def obtain(self, site: Site, joining: Joining, handle: Callable[[type], Any]) -> dict[str, bytes]:
        given: RayJoin = handle(RayJoin)
        if given.address != site.cluster.head:
            raise error("cluster_untrusted", "the credential is for another head than the step names")
        if not _TOKEN.fullmatch(given.token):
            raise error("credential_mismatch", "the credential's token is no token of Ray's")
        return {"token": given.token.encode()}

    async def look(self, site: Site) -> Seen:
        cluster: Ray = site.cluster
        token = content_of(site, "token").decode(errors="replace").strip() if cluster.auth == "token" else ""
        query = urlencode(
            {
                "limit": 1000,
                "filter_keys": "node_ip",
                "filter_predicates": "=",
                "filter_values": cluster.node_ip,
            }
        )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = verifying(site.host.fetch.ca_file) if cluster.dashboard.startswith("https:") else None
        try:
            url = f"{cluster.dashboard}/api/v0/nodes?{query}"
            answer = await site.host.net.request("GET", url, context, headers=headers)
        except OSError as err:
            return Seen(False, False, f"the head at {cluster.dashboard} cannot be asked: {printable(err)}")
        if answer.status != 200:
            return Seen(False, False, f"the head answers with status {answer.status}")
        return judge(answer.body, cluster.node_ip)


ADAPTER = RayAdapter()


def environment_file(cluster: Ray, token_path: str) -> str:
    """For `EnvironmentFile=` of the unit; systemd takes the quotes off once, and once more as it splits words."""
    options = [f"--address={cluster.head}", f"--node-ip-address={cluster.node_ip}"]
    options += [f"--num-cpus={cluster.num_cpus}"] if cluster.num_cpus else []
    options += [f"--num-gpus={cluster.num_gpus}"] if cluster.num_gpus else []
    if cluster.resources:
        options.append(f"'--resources={json.dumps(dict(sorted(cluster.resources.items())), separators=(',', ':'))}'")
    if cluster.labels:
        options.append("--labels=" + ",".join(f"{key}={value}" for key, value in sorted(cluster.labels.items())))
    quoted = " ".join(options).replace("\\", "\\\\").replace('"', '\\"')
    lines = [f'RAY_NODE_OPTIONS="{quoted}"', f"RAY_AUTH_MODE={'token' if cluster.auth == 'token' else 'disabled'}"]
    lines += [f'RAY_AUTH_TOKEN_PATH="{token_path}"'] if cluster.auth == "token" else []
    return "\n".join(lines) + "\n"


class _Node(msgspec.Struct, frozen=True):
    node_ip: str = ""
    state: str = ""
    is_head_node: bool = False
    state_message: str | None = None


class _Inner(msgspec.Struct, frozen=True):
    result: tuple[_Node, ...] = ()


class _Outer(msgspec.Struct, frozen=True):
    result: _Inner = _Inner()


class _Answer(msgspec.Struct, frozen=True):
    data: _Outer = _Outer()


def judge(body: bytes, node_ip: str) -> Seen:
    """The state API's list of nodes, of which one with this address has to be alive and not the head."""
    try:
        nodes = msgspec.json.decode(body, type=_Answer).data.result.result
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Seen(False, False, "the head's answer is no list of nodes")
    ours = [node for node in nodes if node.node_ip == node_ip and not node.is_head_node]
    if any(node.state == "ALIVE" for node in ours):
        return Seen(True, True, "alive")
    if not ours:
        return Seen(False, False, f"the head lists no node {node_ip}")
    why = printable(ours[-1].state_message or "no reason given")
    return Seen(False, False, f"node {node_ip} is {printable(ours[-1].state).lower()}: {why}")
