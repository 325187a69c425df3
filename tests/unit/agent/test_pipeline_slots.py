"""Tasks that run containers take no slot of the others, and a stopping agent does not wait for them (TE-20)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hostler.agent.pipeline import Pipeline
from hostler.agent.session.inbox import Inbox
from hostler.base.envelope import Envelope
from hostler.catalog.definition import StepTemplate
from hostler.catalog.manifest import Catalog
from hostler.wire.node import Tasks, WorkerPolicy
from support import builders
from support.agent import Core, core
from support.keys import Keys
from support.workloads import until


class Runs:
    """A runner that only holds what it is given; `let_go` ends everything."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.let_go = asyncio.Event()

    async def run(self, admitted: Any, cancelled: asyncio.Event) -> None:
        self.running.append(admitted.spec.operation_type)
        waits = [asyncio.ensure_future(event.wait()) for event in (self.let_go, cancelled)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self.running.remove(admitted.spec.operation_type)


def both_kinds(keys: Keys) -> Catalog:
    run = StepTemplate(id="run", kind="container.run", params={"job": "/a/b", "command": ["x"]}, reusable=False)
    return builders.catalog(keys, builders.definition(), builders.definition(run, type_="job.test"))


@asynccontextmanager
async def pipeline(folder: Path, **settings: Any) -> AsyncIterator[tuple[Core, Pipeline, Runs, Inbox, list[str]]]:
    inbox, runs, unknown = Inbox(), Runs(), list[str]()
    async with core(folder, catalog=both_kinds) as node:
        made = Pipeline(
            inbox=inbox,
            journal=node.journal,
            runner=runs,  # type: ignore[arg-type]
            trusted=SimpleNamespace(catalog=node.catalog),  # type: ignore[arg-type]
            view=lambda: builders.view(node.keys, node.catalog, node.journal),
            clock=node.clock,
            accepted=lambda task_id: None,
            changed=lambda: None,
            unknown=unknown.append,
            **settings,
        )
        loop = asyncio.ensure_future(made.run())
        try:
            yield node, made, runs, inbox, unknown
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


def sent(node: Core, type_: str) -> Envelope:
    return builders.envelope(node.keys, builders.task(node.keys, node.catalog, ref=f"{type_}@v1"))


async def test_containers_take_no_slot_and_are_bounded_by_their_own(tmp_path: Path) -> None:
    async with pipeline(tmp_path, parallel=1, containers=2) as (node, made, runs, inbox, _):
        types = ["job.test"] * 3 + ["demo.write"] * 2
        await inbox.put(Tasks(tuple(sent(node, type_) for type_ in types)))
        await until(lambda: sorted(runs.running) == ["demo.write", "job.test", "job.test"] and made.running == 5)
        await asyncio.sleep(0.05)
        assert sorted(runs.running) == ["demo.write", "job.test", "job.test"]
        assert (made.running, made.in_slots) == (5, 2)
        runs.let_go.set()
        await until(lambda: made.running == 0)
        assert made.in_slots == 0


async def test_what_was_taken_begins_while_the_rest_of_its_batch_is_judged(tmp_path: Path) -> None:
    """Judging hundreds takes a while, in which nothing else of the agent would have its turn."""
    async with pipeline(tmp_path, parallel=4) as (node, made, runs, inbox, _):
        taken: list[int] = []
        begin = runs.run

        async def noted(admitted: Any, cancelled: asyncio.Event) -> None:
            taken.append(made.running)
            await begin(admitted, cancelled)

        runs.run = noted  # type: ignore[method-assign]
        await inbox.put(Tasks(tuple(sent(node, "demo.write") for _ in range(40))))
        await until(lambda: made.running == 40)
        assert taken[0] < 10, "the first one waited for most of the others"
        runs.let_go.set()
        await until(lambda: made.running == 0)


async def test_EF_07_a_drain_lets_a_container_run_on_and_starts_no_other(tmp_path: Path) -> None:
    async with pipeline(tmp_path, parallel=1, containers=2) as (node, made, runs, inbox, _):
        await inbox.put(Tasks((sent(node, "job.test"),)))
        await until(lambda: runs.running == ["job.test"])
        await inbox.put(WorkerPolicy("draining"))
        await inbox.put(Tasks((sent(node, "job.test"),)))
        await until(lambda: made.running == 2)
        await asyncio.sleep(0.05)
        assert runs.running == ["job.test"]


async def test_a_halted_agent_waits_for_what_has_begun_and_begins_nothing_more(tmp_path: Path) -> None:
    async with pipeline(tmp_path, parallel=1, containers=2) as (node, made, runs, inbox, _):
        await inbox.put(Tasks(tuple(sent(node, type_) for type_ in ("demo.write", "demo.write", "job.test"))))
        await until(lambda: sorted(runs.running) == ["demo.write", "job.test"])
        assert made.at_work == 1, "it would wait for a container, or for what has not begun"
        made.halt()
        await inbox.put(Tasks((sent(node, "job.test"),)))
        await until(lambda: made.running == 4)
        runs.let_go.set()
        await until(lambda: (made.at_work, made.running) == (0, 2))
        await asyncio.sleep(0.05)
        assert (runs.running, made.running) == ([], 2)


async def test_K3_a_cancel_of_what_the_journal_does_not_hold_clears_its_containers(tmp_path: Path) -> None:
    async with pipeline(tmp_path, parallel=1) as (node, _, _, inbox, unknown):
        task = builders.task(node.keys, node.catalog, ref="job.test@v1")
        await inbox.put(Tasks((builders.envelope(node.keys, builders.cancel(task)),)))
        await until(lambda: unknown == [task.attempt_uid])
