"""Which runtimes this node could use now: what `workload.runtimes` tells, by looking for sockets alone."""

from pathlib import Path

from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.hardware.tree import is_socket

CONTAINERD, DOCKER, PROCESS = "containerd", "docker", "process"
CRI_NAMESPACE = "k8s.io"  # where containerd keeps what its container interface sees


def present_runtimes(root: Path, settings: ContainerSettings) -> tuple[str, ...]:
    """The preferred one first. A plain process is no runtime of a node that does not allow it (RN-05)."""
    sockets = {CONTAINERD: settings.containerd_socket, DOCKER: settings.docker_socket}
    names = [
        name
        for name, path in sockets.items()
        if settings.runtime in ("auto", name) and is_socket(root / path.lstrip("/"))
    ]
    if settings.allow_process and settings.runtime in ("auto", PROCESS):
        names.append(PROCESS)
    return tuple(names)
