"""Which runtimes, task API and bundles this agent has: the one place where they come together.

Each loads when a node that can run containers asks for it; an idle agent carries none.
"""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.containers.workload import Bundles, TaskFacts, TaskServer
from hostler.base.errors import error

CHOOSE = "hostler.agent.containers.choose"


def open_runtimes(settings: ContainerSettings, state: Path) -> Mapping[str, ContainerRuntime]:
    """Every runtime that the settings admit, by name, the preferred one first. Connects to none."""
    if settings.runtime == "none" or find_spec(CHOOSE) is None:
        return {}
    found: Mapping[str, ContainerRuntime] = import_module(CHOOSE).open_runtimes(settings, state)
    return found


def open_task_server(state: Path) -> TaskServer:
    return Directories(state / "tasks")


def open_bundles() -> Bundles:
    return NoBundles()


class Directories:
    """The directory of a task's socket, with nobody listening in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def serve(self, facts: TaskFacts) -> AsyncIterator[Path]:
        directory = self._folder / facts.attempt_uid
        directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        yield directory  # what is left is discarded with the attempt

    def discard(self, attempt_uid: str) -> None:
        shutil.rmtree(self._folder / attempt_uid, ignore_errors=True)


class NoBundles:
    async def fetch(self, facts: TaskFacts, sha256: str) -> Path:
        raise error("source_denied", f"task {facts.task_id} wants code bundle {sha256}, and this agent fetches none")
