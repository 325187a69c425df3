"""Slurm: `slurm.conf` and the cluster's key on the node; the controller's own words through `scontrol`.

State=IDLE+DYNAMIC_NORM        usable          State=DOWN*        does not answer
State=MIXED, ALLOCATED         usable          State=IDLE+DRAIN   drained, see Reason
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hostler.agent.clusters.contract import Joining, Seen, Site, Wanted, printable
from hostler.agent.clusters.files import content_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.credentials import SlurmJoin
from hostler.catalog.params.cluster import Cluster, Slurm

_USABLE = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING"})
_HARMLESS = frozenset({"CLOUD", "COMPLETING", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "PLANNED", "RESERVED"})
_UNKNOWN_TO_IT = frozenset({"UNKNOWN", "FUTURE", "DOWN"})
_FIELD = re.compile(r"(?:^|\s)(NodeName|State|Reason)=(.*?)(?=\s\w+=|$)", re.MULTILINE)
_CLUSTER_NAME = re.compile(r"^[ \t]*ClusterName[ \t]*=[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)


class SlurmAdapter:
    def check(self, site: Site) -> None:
        return

    def name(self, cluster: Cluster) -> str:
        assert isinstance(cluster, Slurm)
        return f"slurm cluster {cluster.cluster_name}"

    def elsewhere(self, site: Site) -> str:
        names = _CLUSTER_NAME.findall(content_of(site, "config").decode(errors="replace"))
        others = [name for name in names if name != site.cluster.cluster_name]
        return f"slurm cluster {printable(others[0])}" if others else ""

    def wanted(self, site: Site) -> tuple[Wanted, ...]:
        cluster: Slurm = site.cluster
        return (
            Wanted("key", 0o400, owner=cluster.key_owner),
            Wanted("config", 0o644, slurm_conf(cluster, site.node).encode()),
        )

    def holds(self, site: Site) -> bool:
        return True  # whether it is the right key, the controller says

    async def obtain(self, site: Site, joining: Joining, handle: Callable[[type], Any]) -> dict[str, bytes]:
        return {"key": handle(SlurmJoin).key}

    async def look(self, site: Site) -> Seen:
        if site.ask is None:
            raise error("binding_error", "slurm is asked by a command profile, and the step names none")
        try:
            return judge(await site.ask(), site.node)
        except HostlerError as err:
            if err.code not in ("exit_status", "timeout", "killed_by_signal"):
                raise
            return Seen(False, False, f"the controller gave no answer: {err.message}")


ADAPTER = SlurmAdapter()


def slurm_conf(cluster: Slurm, node: str) -> str:
    """The whole file. Every value has passed a pattern without white space, so a line stays a line."""
    auth = "auth/munge" if cluster.auth == "munge" else "auth/slurm"
    cred = "cred/munge" if cluster.auth == "munge" else "cred/slurm"
    lines = [f"ClusterName={cluster.cluster_name}"]
    lines += [f"SlurmctldHost={controller}" for controller in cluster.controllers]
    lines += [f"AuthType={auth}", f"CredType={cred}"]
    lines += [f"{key}={value}" for key, value in cluster.settings.items()]
    lines.append(_line("NodeName", node, cluster.node))
    lines += [_line("PartitionName", name, given) for name, given in cluster.partitions.items()]
    return "\n".join(lines) + "\n"


def _line(key: str, name: str, attributes: Mapping[str, str]) -> str:
    return " ".join([f"{key}={name}", *(f"{k}={v}" for k, v in attributes.items())])


def judge(output: str, node: str) -> Seen:
    """`scontrol --oneliner show node`: the base state, its flags, and a star when the node does not answer."""
    fields = {key: value.strip() for key, value in _FIELD.findall(output)}
    if fields.get("NodeName") != node or not fields.get("State"):
        return Seen(False, False, f"the controller shows no node {node}")
    base, *flags = fields["State"].split("+")
    silent = "*" in fields["State"]
    base, bad = (
        base.rstrip("*~#!%$@^-"),
        [f for f in (flag.rstrip("*~#!%$@^-") for flag in flags) if f not in _HARMLESS],
    )
    reason = f", reason {printable(fields['Reason'])}" if fields.get("Reason") else ""
    condition = f"state {printable(fields['State']).lower()}{reason}"
    ready = base in _USABLE and not bad and not silent
    return Seen(base not in _UNKNOWN_TO_IT and not silent, ready, condition)
