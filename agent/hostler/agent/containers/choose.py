"""Opens the container runtimes that this node's settings admit; connects to none of them."""

from collections.abc import Callable
from pathlib import Path

from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.present import CONTAINERD, DOCKER, PROCESS, admitted
from hostler.agent.containers.process import Process
from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.containers.settings import LOG_DIR, ContainerSettings


def open_runtimes(settings: ContainerSettings, state: Path, node_id: str) -> dict[str, ContainerRuntime]:
    """By name, the preferred one first. Which of them answers is found out when one is wanted."""
    made: dict[str, Callable[[], ContainerRuntime]] = {
        CONTAINERD: lambda: Containerd(
            Path(settings.containerd_socket), Path(settings.log_dir or LOG_DIR), state / "run"
        ),
        DOCKER: lambda: Docker(Path(settings.docker_socket), node_id),
        PROCESS: lambda: Process(state / "processes"),
    }
    return {name: made[name]() for name in admitted(settings)}
