"""The control plane without its edges: decide, sign, store. What one task and one submit cost.

One operation of 1,000 tasks on 500 nodes, submitted, taken and reported to its end; then 1,000 operations of
one task each. CPU time of the whole process, so that "per second" means per second of one core (design §9).
"""

import argparse
import asyncio
import contextlib
import cProfile
import json
import pstats
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hostler.control.kernel.commands import FoldReports, NodeHello, TargetSelector, TasksAccepted
from hostler.wire.node import Hello
from hostler.wire.report import Body, Report
from hostler.wire.task import TaskSpec
from support.control import FakeNode, Fleet, fleet_in, submit

NODES, REPLICAS, SUBMITS = 500, 2, 1000
_IN_FLIGHT = 256


class Times:
    """CPU and wall seconds by name."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = {}
        self.wall: dict[str, float] = {}

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu
        self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall


async def gathered(fleet: Fleet, commands: list[object]) -> None:
    """As the edges would: some in flight at once."""
    waiting = iter(commands)

    async def worker() -> None:
        for command in waiting:
            await fleet.execute(command)

    await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))


async def big_operation(fleet: Fleet, nodes: list[FakeNode], times: Times) -> None:
    with times.of("submit"):
        await fleet.execute(submit(target_selector=TargetSelector(labels={"pool": "gpu"}, replicas=REPLICAS)))
    await play(fleet, nodes, times)


async def play(fleet: Fleet, nodes: list[FakeNode], times: Times) -> None:
    """Agents take what is due and report it to its end, in two messages: begun, ended."""
    due: dict[str, list[TaskSpec]] = {}
    with times.of("deliver"):
        for node in nodes:
            await fleet.engine.reader.undelivered(node.node_id, 256)
    for node in nodes:
        due[node.node_id] = [spec for spec in await fleet.delivered(node) if isinstance(spec, TaskSpec)]
    taken: list[object] = [
        TasksAccepted(node_id=node_id, task_ids=tuple(spec.task_id for spec in specs))
        for node_id, specs in due.items()
        if specs
    ]
    begun, ended = reports_of(fleet, nodes, due)
    with times.of("accept"):
        await gathered(fleet, taken)
    with times.of("fold"):
        await gathered(fleet, begun)
        await gathered(fleet, ended)


def reports_of(
    fleet: Fleet, nodes: list[FakeNode], due: dict[str, list[TaskSpec]]
) -> tuple[list[object], list[object]]:
    """Each task's start and each task's end, as messages in the order of the outbox."""
    stories = [(node, fleet.story(node, spec)) for node in nodes for spec in due[node.node_id]]
    begun: list[object] = [message(node, bodies[:2]) for node, bodies in stories]
    return begun, [message(node, bodies[2:]) for node, bodies in stories]


def message(node: FakeNode, bodies: list[Body]) -> FoldReports:
    first = node.outbox + 1
    node.outbox += len(bodies)
    return FoldReports(node_id=node.node_id, reports=tuple(Report(n, b) for n, b in enumerate(bodies, first)))


async def measure() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        async with fleet_in(Path(directory)) as fleet:
            await fleet.publish()
            nodes = [await fleet.enroll(f"n{number}", labels={"pool": "gpu"}) for number in range(NODES)]
            hellos: list[object] = [
                NodeHello(node_id=node.node_id, session_id="s", hello=Hello(agent_version="1")) for node in nodes
            ]
            await gathered(fleet, hellos)
            big, small = Times(), Times()
            await big_operation(fleet, nodes, big)
            commands: list[object] = [submit(nodes[number % NODES]) for number in range(SUBMITS)]
            with small.of("submit"):
                await gathered(fleet, commands)
            await play(fleet, nodes, small)
            states = await fleet.engine.reader.open_tasks()
            assert not states, states
    return {
        "tasks": figures(big, NODES * REPLICAS),
        "submits": figures(small, SUBMITS),
        "submits_per_cpu_second": round(SUBMITS / small.cpu["submit"]),
        "tasks_per_cpu_second": round(NODES * REPLICAS / sum(big.cpu.values())),
    }


def figures(times: Times, count: int) -> dict[str, str]:
    return {
        name: f"{times.cpu[name] / count * 1e6:.0f} us cpu, {times.wall[name] / count * 1e6:.0f} us wall"
        for name in times.cpu
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="where the writer thread spends its time")
    options = parser.parse_args()
    if options.profile:
        profile_writer()
    print(json.dumps(asyncio.run(measure()), indent=1))


def profile_writer() -> None:
    from hostler.control.store.writer import Writer

    original = Writer._run

    def profiled(self: Writer) -> None:
        profile = cProfile.Profile()
        profile.runcall(original, self)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)

    Writer._run = profiled  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
