"""Parameters of `cluster.join` and `cluster.verify`, by backend (SK-13, SK-14).

What stands here goes into files that daemons of root read, so every text has a pattern: one line, no quotes.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from hostler.catalog.params.artifact import Path, Sha256

END = r"$(?!\n)"
_DNS = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
Host = Annotated[str, msgspec.Meta(pattern=rf"^{_DNS}{END}")]
NodeName = Annotated[str, msgspec.Meta(pattern=rf"^{_DNS}{END}", max_length=253, description="as the cluster knows it")]
Unit = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9:_.@-]{{1,200}}\.service{END}")]
LabelKey = Annotated[
    str, msgspec.Meta(pattern=rf"^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[\w.-]{{0,61}}[A-Za-z0-9])?{END}")
]
LabelValue = Annotated[str, msgspec.Meta(pattern=rf"^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?)?{END}")]
ServerUrl = Annotated[str, msgspec.Meta(pattern=rf"^https://[A-Za-z0-9.:\[\]-]+{END}", max_length=300)]
HeadUrl = Annotated[str, msgspec.Meta(pattern=rf"^https?://[A-Za-z0-9.:\[\]-]+{END}", max_length=300)]
Address = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9.\[\]:-]+:[0-9]{{1,5}}{END}", max_length=300)]
Ip = Annotated[str, msgspec.Meta(pattern=rf"^[0-9A-Fa-f.:]{{2,45}}{END}")]
User = Annotated[str, msgspec.Meta(pattern=rf"^[a-z_][a-z0-9_-]{{0,31}}{END}")]
SlurmKey = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z]{{2,64}}{END}")]
SlurmValue = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9_.,:/=+\[\]()*@-]{{1,1024}}{END}")]
SlurmName = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,62}}{END}")]
Controller = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9.-]{{1,200}}(?:\([A-Za-z0-9.:-]{{1,200}}\))?{END}")]

# Lines that the adapter writes itself, or that name programs or files which slurmd would run or read as root.
_SLURM_RESERVED = re.compile(
    r"^(?:clustername|slurmctldhost|controlmachine|controladdr|authtype|credtype|cryptotype|authinfo|authalttypes"
    r"|authaltparameters|nodename|partitionname|include|plugindir|plugstackconfig"
    r"|.*(?:prolog|epilog|program|exec|hook|mail).*)$",
    re.IGNORECASE,
)
# Fields of a kubelet's configuration that say nothing about whom it obeys or what it runs by itself.
KUBELET_SETTINGS = frozenset(
    """
    address cgroupDriver cgroupsPerQOS clusterDNS clusterDomain containerRuntimeEndpoint cpuManagerPolicy
    enforceNodeAllocatable evictionHard evictionSoft evictionSoftGracePeriod failSwapOn featureGates
    healthzBindAddress healthzPort imageGCHighThresholdPercent imageGCLowThresholdPercent kubeReserved
    makeIPTablesUtilChains maxPods memoryManagerPolicy nodeStatusUpdateFrequency oomScoreAdj podCIDR port
    resolvConf serializeImagePulls shutdownGracePeriod shutdownGracePeriodCriticalPods systemReserved
    topologyManagerPolicy
    """.split()  # noqa: SIM905 - a list of words reads better
)


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Taint(_Strict, frozen=True, kw_only=True):
    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Kubernetes(_Strict, frozen=True, kw_only=True, tag_field="backend", tag="k8s"):
    """Joins by a CSR with a bootstrap token; nothing is sent to a server whose CA does not fit the pin.

    Attributes:
        server: the API server, `https://host:port`.
        ca_sha256: pins: SHA-256 of the public key (SPKI) of a CA; what kubeadm prints without its `sha256:`.
        ca_pem: the CA; "" takes it from the credential, or from `cluster-info`. Only a pinned one counts.
        labels, taints: what the node must carry; the kubelet registers with them.
        settings: further fields of the kubelet's configuration, of those that name no programs or trust.
    """

    server: ServerUrl
    ca_sha256: Annotated[tuple[Sha256, ...], msgspec.Meta(min_length=1, max_length=4)]
    ca_pem: Annotated[str, msgspec.Meta(max_length=65_536)] = ""
    labels: dict[LabelKey, LabelValue] = {}
    taints: tuple[Taint, ...] = ()
    settings: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in self.settings.keys() - KUBELET_SETTINGS:
            raise ValueError(f"{name[:64]!r} is no kubelet setting that a join may make")


class Slurm(_Strict, frozen=True, kw_only=True, tag_field="backend", tag="slurm"):
    """Writes `slurm.conf` and the cluster's key; the controller must know the node.

    Attributes:
        controllers: `SlurmctldHost` lines in order, `name` or `name(address)`.
        auth: `munge` (munge.key) or `slurm` (slurm.key, Slurm 23.11 and later).
        key_owner: the user that the key file belongs to.
        node: attributes of this node's line, such as `CPUs` and `RealMemory`.
        partitions: partition lines by name.
        settings: further lines; they must equal the controller's. None that names a program.
    """

    cluster_name: SlurmName
    controllers: Annotated[tuple[Controller, ...], msgspec.Meta(min_length=1, max_length=8)]
    auth: Literal["munge", "slurm"] = "munge"
    key_owner: User = "munge"
    node: dict[SlurmKey, SlurmValue] = {}
    partitions: dict[SlurmName, dict[SlurmKey, SlurmValue]] = {}
    settings: dict[SlurmKey, SlurmValue] = {}

    def __post_init__(self) -> None:
        lines = (self.settings, self.node, *self.partitions.values())
        for name in (name for line in lines for name in line if _SLURM_RESERVED.match(name)):
            raise ValueError(f"{name!r} is no line of slurm.conf that a join may write")


class Ray(_Strict, frozen=True, kw_only=True, tag_field="backend", tag="ray"):
    """Writes what the node's unit starts Ray with: `ray start --block $RAY_NODE_OPTIONS`, and the token.

    Attributes:
        head: the head's address, `host:port`.
        dashboard: where the head's API answers; the token goes there too, so keep plain http inside the cluster.
        node_ip: the address the node registers with.
        auth: `none` for a cluster without tokens: whoever reaches its ports runs code there.
        owner: the user that Ray runs as; never root.
        resources, labels: of the node.
        num_cpus, num_gpus: 0 leaves them to Ray.
    """

    head: Address
    dashboard: HeadUrl
    node_ip: Ip
    auth: Literal["token", "none"] = "token"
    owner: User = "ray"
    resources: dict[SlurmName, Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]] = {}
    labels: dict[LabelKey, LabelValue] = {}
    num_cpus: Annotated[int, msgspec.Meta(ge=0, le=65_536)] = 0
    num_gpus: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0

    def __post_init__(self) -> None:
        if self.owner == "root":
            raise ValueError("Ray runs what its users send, so it may not run as root")


Cluster = Kubernetes | Slurm | Ray
ROLES: dict[type, frozenset[str]] = {
    Kubernetes: frozenset({"ca", "key", "certificate", "kubeconfig", "config", "flags"}),
    Slurm: frozenset({"config", "key"}),
    Ray: frozenset({"environment", "token"}),
}


_EXAMPLES: dict[str, dict[str, Any]] = {
    "k8s": {"backend": "k8s", "server": "https://a:1", "ca_sha256": ["a" * 64]},
    "slurm": {"backend": "slurm", "cluster_name": "a", "controllers": ["a"]},
    "ray": {"backend": "ray", "head": "a:1", "dashboard": "http://a", "node_ip": "::"},
}


def stand_in(params: Mapping[str, Any]) -> dict[str, Any]:
    """Valid `cluster` and `files` for the linter to put where bindings stand."""
    cluster = params.get("cluster")
    named = cluster.get("backend") if isinstance(cluster, Mapping) else None
    example = _EXAMPLES.get(str(named), _EXAMPLES["ray"])
    roles = ROLES[type(msgspec.convert(example, Cluster))]
    return {"cluster": example, "files": {role: f"/{role}" for role in roles}}


class _Member(_Strict, frozen=True, kw_only=True):
    cluster: Cluster
    node: NodeName
    files: dict[str, Path]
    profile: str = ""

    def __post_init__(self) -> None:
        roles = ROLES[type(self.cluster)]
        if self.files.keys() != roles or len(set(self.files.values())) != len(roles):
            raise ValueError(f"files must name one path each for {', '.join(sorted(roles))}")


class Join(_Member, frozen=True, kw_only=True):
    """Joins the node to a cluster through its backend's adapter, and waits until the cluster knows it.

    Attributes:
        cluster: one of `k8s`, `slurm`, `ray`.
        node: the node's name in the cluster.
        files: every file that is written, by its role: `ca key certificate kubeconfig config flags` of k8s,
            `config key` of slurm, `environment token` of ray. Each is judged as the path of a `file.render` is.
        units: restarted in order when a file has changed; must be active afterwards.
        credential: handle of a `cluster_join_token`; "" where the key is on the node or the cluster has none.
        profile: the command profile that asks the scheduler (slurm: `scontrol show node`).
        replace: whether the node may be taken out of another cluster.
    """

    units: Annotated[tuple[Unit, ...], msgspec.Meta(max_length=8)] = ()
    credential: str = ""
    replace: bool = False


class Verify(_Member, frozen=True, kw_only=True):
    """Waits until the cluster calls the node ready; else fails with the condition that the cluster named.

    Attributes:
        files: as in the join; they are only read.
        within_seconds: 0 means one look.
    """

    within_seconds: Annotated[float, msgspec.Meta(ge=0, le=7200)] = 300
    interval_seconds: Annotated[float, msgspec.Meta(ge=0.05, le=60)] = 2
