"""Kubernetes: TLS bootstrap as a kubelet does it, then the node object's own conditions.

    pinned CA ─▶ key on disk ─▶ CSR by bootstrap token ─▶ certificate ─▶ configuration ─▶ kubeconfig, last

The bootstrap token stays in memory: no bootstrap kubeconfig is written.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from hostler.agent.clusters import kube_csr, kube_files, kube_trust
from hostler.agent.clusters.contract import Joining, Seen, Site, Wanted, printable
from hostler.agent.clusters.files import content_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.credentials import KubernetesJoin
from hostler.catalog.params.cluster import Cluster, Kubernetes

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class KubernetesAdapter:
    def check(self, site: Site) -> None:
        kube_files.check_labels(site.cluster.labels)

    def name(self, cluster: Cluster) -> str:
        assert isinstance(cluster, Kubernetes)
        return f"kubernetes cluster at {cluster.server}"

    def elsewhere(self, site: Site) -> str:
        """A cluster is its CA: another address of the same one is no other cluster."""
        content = content_of(site, "kubeconfig")
        if not content:
            return ""
        server, path, inline = kube_files.cluster_in(content)
        try:
            found = site.host.files.info(path).exists if path and not inline else False
            pem = site.host.files.read(path, 65_536) if found else inline
            kube_trust.pinned(pem, site.cluster.ca_sha256)
        except HostlerError:
            return f"kubernetes cluster at {printable(server)}" if server else "a cluster that cannot be told"
        return ""

    def wanted(self, site: Site) -> tuple[Wanted, ...]:
        return (
            Wanted("key", 0o600),
            Wanted("certificate", 0o644),
            Wanted("ca", 0o644),
            Wanted("config", 0o644, kube_files.configuration(site.cluster, site.files)),
            Wanted("flags", 0o644, kube_files.flags(site.cluster, site.node)),
            Wanted("kubeconfig", 0o600, kube_files.kubeconfig(site.cluster, site.files)),
        )

    def holds(self, site: Site) -> bool:
        certificate, key = content_of(site, "certificate"), content_of(site, "key")
        try:
            kube_trust.pinned(content_of(site, "ca"), site.cluster.ca_sha256)
        except HostlerError:
            return False
        return kube_csr.is_ours(certificate, key, site.node, kube_csr.now())

    async def obtain(self, site: Site, joining: Joining, handle: Callable[[type], Any]) -> dict[str, bytes]:
        if joining.fresh:
            _refuse_rotated(site)
        elif self.holds(site):
            return {}  # joined before; the token is not needed
        given: KubernetesJoin = handle(KubernetesJoin)
        if given.server and given.server.rstrip("/") != site.cluster.server:
            raise error("cluster_untrusted", "the credential is for another API server than the step names")
        ca_pem = await _ca(site, given)
        key = b"" if joining.fresh else content_of(site, "key")
        if not kube_csr.usable_key(key):
            key = kube_csr.new_key()
            await joining.put(Wanted("key", 0o600, key))  # before the request, so that a crash finds it again
        certificate = await kube_csr.certify(
            site.host.net,
            site.cluster.server,
            kube_trust.context_for(ca_pem),
            given.token,
            node=site.node,
            key_pem=key,
            deadline=joining.deadline,
        )
        if not kube_csr.is_ours(certificate, key, site.node, kube_csr.now()):
            raise error(
                "join_refused", "the certificate that was issued is not for this node and key, or not valid now"
            )
        joining.say("the cluster issued the node's certificate")
        return {"key": key, "certificate": certificate, "ca": ca_pem.encode()}

    async def look(self, site: Site) -> Seen:
        cluster: Kubernetes = site.cluster
        try:
            ca_pem = kube_trust.pinned(content_of(site, "ca"), cluster.ca_sha256)
            client = content_of(site, "certificate") + content_of(site, "key")
            context = kube_trust.context_for(ca_pem, client)
            answer = await site.host.net.request("GET", f"{cluster.server}/api/v1/nodes/{site.node}", context)
        except HostlerError as err:
            return Seen(False, False, err.message)
        except OSError as err:
            why = printable(getattr(err, "verify_message", "") or err.strerror or err)
            return Seen(False, False, f"{cluster.server} cannot be asked: {why}")
        if answer.status == 404:
            return Seen(False, False, f"there is no node {site.node}")
        if answer.status != 200:
            return Seen(False, False, f"the API server answers with status {answer.status}")
        return judge(answer.body, cluster, _boot_id(site))


ADAPTER = KubernetesAdapter()


async def _ca(site: Site, given: KubernetesJoin) -> str:
    cluster: Kubernetes = site.cluster
    pem = (cluster.ca_pem or given.ca_pem).encode()
    if not pem:
        url = cluster.server + kube_trust.CLUSTER_INFO
        try:
            answer = await site.host.net.request("GET", url, kube_trust.unverified())
        except OSError as err:
            raise error("join_refused", f"{cluster.server} cannot be reached: {printable(err)}") from err
        pem = kube_trust.ca_of_cluster_info(answer.body, given.token)
    return kube_trust.pinned(pem, cluster.ca_sha256)


def _refuse_rotated(site: Site) -> None:
    """A kubelet prefers what it has rotated to over what a kubeconfig names."""
    rotated = site.files["certificate"].rpartition("/")[0] + "/kubelet-client-current.pem"
    if site.host.files.stat(rotated) is not None:
        hint = "stop the kubelet and remove its pki folder, then join again"
        raise error("joined_elsewhere", f"{rotated} is still of the cluster that the node leaves", hint=hint)


def _boot_id(site: Site) -> str:
    try:
        return site.host.files.read(_BOOT_ID, 256).decode().strip()
    except HostlerError:
        return ""  # a root without /proc


class _Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True):
    taints: tuple[dict[str, str], ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Info(msgspec.Struct, frozen=True, rename={"boot_id": "bootID"}):
    boot_id: str = ""


class _Status(msgspec.Struct, frozen=True, rename={"node_info": "nodeInfo"}):
    conditions: tuple[_Condition, ...] = ()
    node_info: _Info = _Info()


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


def judge(body: bytes, cluster: Kubernetes, boot_id: str) -> Seen:
    """Ready by its own word, with every label and taint it must carry, and not the object of another machine."""
    try:
        node = msgspec.json.decode(body, type=_Node)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Seen(False, False, "the API server's answer is no node")
    theirs = node.status.node_info.boot_id
    if boot_id and theirs and theirs != boot_id:
        return Seen(False, False, "the node object is of another machine, or of one that has restarted since")
    ready = next((one for one in node.status.conditions if one.type == "Ready"), _Condition(status="Unknown"))
    if ready.status != "True":
        why = printable(f"{ready.reason}: {ready.message}") if ready.reason else "the kubelet has not reported yet"
        return Seen(True, False, f"Ready is {printable(ready.status)}, {why}")
    for key, value in cluster.labels.items():
        if node.metadata.labels.get(key) != value:
            return Seen(True, False, f"label {key}={value} is missing")
    carried = {(one.get("key", ""), one.get("value", ""), one.get("effect", "")) for one in node.spec.taints}
    for taint in cluster.taints:
        if (taint.key, taint.value, taint.effect) not in carried:
            return Seen(True, False, f"taint {taint.key}={taint.value}:{taint.effect} is missing")
    return Seen(True, True, "Ready is True")
