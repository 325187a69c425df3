"""A node that runs containers: the real parts of the agent over a runtime in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.containers.workload import TaskFacts
from hostler.agent.journal.journal import Journal
from hostler.agent.workloads import NodeWorkloads
from hostler.base.clock import Clock
from hostler.base.envelope import Envelope
from hostler.catalog.definition import StepTemplate
from hostler.catalog.manifest import Catalog
from hostler.catalog.params.container import ContainerRun
from hostler.wire.task import TaskSpec
from support import builders
from support.agent import Core, core
from support.clocks import StillClock
from support.fake_runtime import FakeRuntime
from support.keys import Keys


class FakeTasks:
    """A directory for each attempt, as the task API makes one. `served` are the facts of each, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.served = folder, list[TaskFacts]()
        self.open: set[str] = set()

    @asynccontextmanager
    async def serve(self, facts: TaskFacts) -> AsyncIterator[Path]:
        self.served.append(facts)
        directory = self.folder / facts.attempt_uid
        directory.mkdir(parents=True, exist_ok=True)
        self.open.add(facts.attempt_uid)
        try:
            yield directory
        finally:
            self.open.discard(facts.attempt_uid)

    def discard(self, attempt_uid: str) -> None:
        directory = self.folder / attempt_uid
        if directory.is_dir():
            directory.rmdir()


class FakeBundles:
    def __init__(self, folder: Path) -> None:
        self.folder, self.fetched = folder, list[str]()

    async def fetch(self, facts: TaskFacts, sha256: str) -> Path:
        self.fetched.append(sha256)
        return self.folder / sha256

    async def release(self, attempt_uid: str) -> None:
        return


class Heard:
    """How long the control plane is silent, and how long it has been there."""

    def __init__(self) -> None:
        self.silent_s, self.there_s = 0.0, 0.0


def workloads(
    folder: Path,
    journal: Journal,
    clock: Clock,
    runtimes: Sequence[FakeRuntime],
    heard: Heard | None = None,
    *,
    root: Path | None = None,
    present: Callable[[], tuple[str, ...]] | None = None,
    **settings: Any,
) -> NodeWorkloads:
    """Over `runtimes`, the preferred one first; all of them are there unless `present` says otherwise."""
    heard = heard or Heard()
    return NodeWorkloads(
        settings=msgspec.convert({"node_address": "10.0.0.7"} | settings, ContainerSettings),
        state=folder / "containers",
        kept=(str(folder / "state"),),
        root=root or folder / "root",
        node_id=builders.NODE,
        runtimes={one.name: one for one in runtimes},
        tasks=FakeTasks(folder / "tasks"),
        bundles=FakeBundles(folder / "bundles"),
        journal=journal,
        clock=clock,
        silent=lambda: heard.silent_s,
        heard_for=lambda: heard.there_s,
        present=present or (lambda: tuple(one.name for one in runtimes)),
    )


class Node:
    """A node over one runtime that outlives it: opened again over the same folder, it is the next agent's process."""

    def __init__(self, folder: Path, runtime: FakeRuntime, **settings: Any) -> None:
        self.folder, self.runtime, self.keys = folder, runtime, Keys()
        self.heard, self.settings = Heard(), {"allow_process": True} | settings
        self.workloads: NodeWorkloads
        self.sent: list[Envelope] = []

    @asynccontextmanager
    async def agent(self, *, clock: StillClock | None = None, forgotten: bool = False) -> AsyncIterator[Core]:
        """One process of the agent, from its start to its end by whatever ends the block."""
        if forgotten:
            for path in self.folder.glob("journal.db*"):
                path.unlink()
        clock = clock or StillClock()

        def make(journal: Journal) -> NodeWorkloads:
            made = workloads(self.folder, journal, clock, [self.runtime], self.heard, **self.settings)
            self.workloads = made
            return made

        async with core(self.folder, self.keys, catalog=job_catalog, clock=clock, workloads=make) as node:
            await self.workloads.recover()
            yield node

    def task(self, node: Core, **inputs: Any) -> TaskSpec:
        spec = builders.task(self.keys, node.catalog, inputs=JOB | inputs)
        self.sent.append(builders.envelope(self.keys, spec))
        return spec

    async def start(self, node: Core, **inputs: Any) -> "asyncio.Task[Any]":
        """A task on its way."""
        self.task(node, **inputs)
        return asyncio.ensure_future(node.deliver(self.sent[-1]))

    async def resume(self, node: Core) -> "asyncio.Task[None]":
        """What the pipeline does with what the journal holds."""
        (stored,) = await node.journal.open_tasks()
        if stored.cancel_requested:
            node.cancelled.set()
        return asyncio.ensure_future(node.runner.resume(stored, node.catalog, node.cancelled))


JOB: dict[str, Any] = {"job": "/ann/train", "command": ["train"]}
FIELDS = (
    "job", "parent", "namespace", "image", "command", "setup", "environment", "resources", "ports", "network",
    "runtime", "security", "mounts", "bundle", "timeout_seconds", "replicas", "fence", "fence_seconds",
)  # fmt: skip
DEFAULTS = msgspec.to_builtins(ContainerRun(job="/a/b", command=("x",)))


def job_catalog(keys: Keys) -> Catalog:
    """A definition that hands its inputs on, as the shipped one does."""
    properties = {name: {"default": DEFAULTS[name]} for name in FIELDS if name not in JOB} | {name: {} for name in JOB}
    inputs = {"type": "object", "additionalProperties": False, "properties": properties}
    run = StepTemplate(
        id="run",
        kind="container.run",
        params={name: f"${{inputs.{name}}}" for name in FIELDS},
        reusable=False,
        timeout_seconds=86_400,
    )
    made = builders.definition(run, type_="job.test", inputs=inputs, timeout_seconds=86_400)
    return builders.catalog(keys, made)


async def until(true: Callable[[], Any], within_s: float = 10.0) -> None:
    """Waits for a state, never for a while."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.005)


async def stop_agent(running: "asyncio.Task[Any]") -> None:
    """As the daemon ends: what runs is cancelled, and says nothing of it."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
