"""Which runtimes this node could use now: what `workload.runtimes` tells, by looking for sockets alone."""

from pathlib import Path

from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.hardware.tree import is_socket

CONTAINERD, DOCKER, PROCESS = "containerd", "docker", "process"
CRI_NAMESPACE = "k8s.io"  # where containerd keeps what its container interface sees


def admitted(settings: ContainerSettings) -> tuple[str, ...]:
    """The preferred one first. A plain process is no runtime of a node that does not allow it (RN-05)."""
    named = (name for name in (CONTAINERD, DOCKER, PROCESS) if settings.runtime in ("auto", name))
    return tuple(name for name in named if name != PROCESS or settings.allow_process)


def present_runtimes(root: Path, settings: ContainerSettings) -> tuple[str, ...]:
    """Those admitted whose socket is there; a process needs none."""
    sockets = {CONTAINERD: settings.containerd_socket, DOCKER: settings.docker_socket}

    def is_there(name: str) -> bool:
        return name == PROCESS or is_socket(root / sockets[name].lstrip("/"))

    return tuple(filter(is_there, admitted(settings)))
