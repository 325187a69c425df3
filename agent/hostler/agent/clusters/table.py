"""Backend to adapter. Modules load on first use: an idle agent carries none of them."""

from importlib import import_module

from hostler.agent.clusters.contract import Adapter
from hostler.catalog.params.cluster import Cluster, Kubernetes, Ray, Slurm

MODULES: dict[type, str] = {
    Kubernetes: "hostler.agent.clusters.kubernetes",
    Slurm: "hostler.agent.clusters.slurm",
    Ray: "hostler.agent.clusters.ray",
}


def adapter_of(cluster: Cluster) -> Adapter:
    adapter: Adapter = import_module(MODULES[type(cluster)]).ADAPTER
    return adapter
