"""Which runtimes this agent has. They load when a node that can run containers asks; an idle agent carries none."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.containers.settings import ContainerSettings

CHOOSE = "hostler.agent.containers.choose"


def open_runtimes(settings: ContainerSettings, state: Path) -> Mapping[str, ContainerRuntime]:
    """Every runtime that the settings admit, by name, the preferred one first. Connects to none."""
    if settings.runtime == "none" or find_spec(CHOOSE) is None:
        return {}
    found: Mapping[str, ContainerRuntime] = import_module(CHOOSE).open_runtimes(settings, state)
    return found
