"""Opens the container runtimes that this node's settings admit; connects to none of them."""

from pathlib import Path

from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.present import CONTAINERD, DOCKER, PROCESS
from hostler.agent.containers.process import Process
from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.containers.settings import LOG_DIR, ContainerSettings


def open_runtimes(settings: ContainerSettings, state: Path, node_id: str) -> dict[str, ContainerRuntime]:
    """By name, the preferred one first. Which of them answers is found out when one is wanted."""
    made: dict[str, ContainerRuntime] = {}
    if settings.runtime in ("auto", CONTAINERD):
        logs = Path(settings.log_dir or LOG_DIR)
        made[CONTAINERD] = Containerd(Path(settings.containerd_socket), logs, state / "run")
    if settings.runtime in ("auto", DOCKER):
        made[DOCKER] = Docker(Path(settings.docker_socket), node_id)
    if settings.allow_process and settings.runtime in ("auto", PROCESS):
        made[PROCESS] = Process(state / "processes")
    return made
