"""What one task costs the agent's core: admission, journal, runner, with a step kind that does nothing.

python -m tests.bench.agent_core        (prints JSON; figures are of this machine)
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostler.agent.admission.admit import admit
from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.verdict import Admitted
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.runner.runner import Runner
from hostler.agent.steps import table
from hostler.base import logs
from hostler.catalog import kinds
from hostler.catalog.definition import StepTemplate
from support import builders, fake_kind
from support.keys import NOW, Keys

TASKS = 2000
PARALLEL = 16


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return time.monotonic()


class Module:
    KIND: Any = None


def _install() -> None:
    kinds.KINDS[fake_kind.NAME] = kinds.Kind(fake_kind.Params, "for tests", ("word",))
    table.MODULES[fake_kind.NAME] = "bench"
    Module.KIND = fake_kind.FakeKind()
    table.import_module = lambda name: Module  # type: ignore[assignment,attr-defined,return-value]


async def main() -> dict[str, Any]:
    logs.set_up("json", "error")
    _install()
    keys = Keys()
    step = StepTemplate(id="say", kind=fake_kind.NAME, params={"word": "${inputs.word}"})
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"word": {"type": "string", "maxLength": 100}},
    }
    catalog = builders.catalog(keys, builders.definition(step, inputs=schema))
    specs = [builders.task(keys, catalog, inputs={"word": f"w{n}"}) for n in range(TASKS)]
    sent = [builders.envelope(keys, spec) for spec in specs]
    with tempfile.TemporaryDirectory() as folder:
        journal = await Journal.open(Path(folder) / "journal.db", Clock())
        view = builders.view(keys, catalog, journal)
        admit(sent[0], view, NOW)
        begun = time.perf_counter()
        verdicts = [admit(envelope, view, NOW) for envelope in sent]
        admit_us = (time.perf_counter() - begun) / TASKS * 1e6
        tasks = [verdict for verdict in verdicts if isinstance(verdict, Admitted)]
        assert len(tasks) == TASKS, verdicts[0]
        runner = Runner(
            journal=journal,
            host=Host(),
            signer=keys.node,
            node_id=builders.NODE,
            trust_domain="bench",
            clock=Clock(),
            progress=lambda _: None,
            trust=lambda: trust,
            authority=LocalAuthority(),
        )
        trust = keys.trust()
        one_ms = [await _timed(lambda task=task: _one(journal, runner, task)) for task in tasks[:100]]
        figures = await _many(journal, runner, tasks[100:])
        await journal.close()
    return {
        "admit_us": round(admit_us, 1),
        "one_task_alone_ms_median": round(sorted(one_ms)[50] * 1000, 3),
        **figures,
    }


async def _one(journal: Journal, runner: Runner, task: Admitted) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(journal.accept(task))
        group.create_task(runner.run(task, asyncio.Event()))


async def _timed(doing: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    await doing()
    return time.perf_counter() - begun


async def _many(journal: Journal, runner: Runner, tasks: list[Admitted]) -> dict[str, Any]:
    """As the pipeline does it: accepted in order, at most so many at once."""
    slots = asyncio.Semaphore(PARALLEL)

    async def run(task: Admitted) -> None:
        try:
            await _one(journal, runner, task)
        finally:
            slots.release()

    wall, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            await slots.acquire()
            group.create_task(run(task))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rows = len(await journal.pending(0, 1_000_000))
    assert rows == 3 * TASKS, rows
    return {
        "tasks_per_s": round(len(tasks) / wall),
        "cpu_ms_per_task": round(cpu / len(tasks) * 1000, 3),
        "journal_writes_per_s": round(3 * len(tasks) / wall),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main()), indent=1))
