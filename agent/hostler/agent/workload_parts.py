"""Which runtimes, task API and bundles this agent has: the one place where they come together.

Each loads when a node that can run containers asks for it; an idle agent carries none.
"""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.containers.workload import Bundles, TaskFacts, TaskServer
from hostler.base.errors import error

_ROOM = "hostler.agent.containers"
LOGS = "/var/log/hostler/containers"  # a containerd outside writes there


def open_runtimes(settings: ContainerSettings, state: Path) -> Mapping[str, ContainerRuntime]:
    """Every runtime that the settings admit, by name, the preferred one first. Connects to none."""
    made: dict[str, tuple[Any, ...]] = {
        "containerd": (Path(settings.containerd_socket), Path(settings.log_dir or LOGS), state / "run"),
        "docker": (Path(settings.docker_socket),),
    }
    if settings.allow_process:
        made["process"] = (state / "processes",)
    return {
        name: getattr(import_module(f"{_ROOM}.{name}"), name.capitalize())(*arguments)
        for name, arguments in made.items()
        if settings.runtime in ("auto", name) and find_spec(f"{_ROOM}.{name}") is not None
    }


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
