"""A coordinator and two workers that find each other by name, in namespaces of their own.

job /ann/coordinator            serves `coordinator`, hands out shards, adds up what comes back
job /ann/workers                creates worker-0 and worker-1, tells the coordinator where they are
    /ann/workers/worker-0       serves `worker-0` in the namespace /ann/workers
    /ann/workers/worker-1       serves `worker-1` there as well

`together` is the same with the workers as children of the coordinator: one root job, one namespace.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hostler import sdk

SMALL = {"resources": {"cpu_millis": 100, "memory_bytes": 128 << 20}}  # for a worker, whatever its parent has


class Coordinator:
    """Waits for workers, gives each its share, adds up."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._workers: list[sdk.ActorHandle] = []
        self._complete = threading.Event()
        self._heard: dict[str, str] = {}

    def join(self, handle: str) -> int:
        """A worker's handle as text: it names the worker's job, so that it is found from here."""
        self._workers.append(sdk.ActorHandle.parse(handle))
        if len(self._workers) == self._wanted:
            self._complete.set()
        return len(self._workers)

    def hello(self, worker: str, job: str) -> str:
        """Workers call back while they work."""
        self._heard[worker] = job
        return sdk.context().info.job

    def reduce(self, shards: Sequence[Sequence[int]]) -> dict[str, Any]:
        if not self._complete.wait(60):
            raise TimeoutError(f"{len(self._workers)} of {self._wanted} workers came")
        sums = sdk.ActorPool(self._workers).map("double_and_add", shards)
        return {"total": sum(sums), "workers": sorted(self._heard)}


class Worker:
    def __init__(self, coordinator: str) -> None:
        self._coordinator = sdk.ActorHandle.parse(coordinator)

    def double_and_add(self, shard: Sequence[int]) -> int:
        info = sdk.context().info
        self._coordinator.hello(info.job.rpartition("/")[2], info.job)
        return sum(2 * number for number in shard)


def coordinate(workers: int, numbers: int) -> None:
    """The coordinator's job, from start to end."""
    with serving(Coordinator(workers)) as coordinator:
        tell(coordinator.reduce(shards_of(numbers)), numbers)


def work(coordinator_job: str, workers: int) -> None:
    """The workers' job: its children are the actors; it ends when the coordinator is gone.

    Args:
        coordinator_job: a path, or the name of a root job of the same user.
    """
    around = sdk.context()
    if not coordinator_job.startswith("/"):
        coordinator_job = f"/{around.info.job.split('/')[1]}/{coordinator_job}"
    coordinator = sdk.ActorHandle("coordinator", coordinator_job)
    group = sdk.create_actor_group(Worker, str(coordinator), name="worker", count=workers, **SMALL)
    for handle in group.wait_ready(60):
        coordinator.join(str(handle))
    resolver = around.resolver_for_job(coordinator_job)
    pause = threading.Event()
    while resolver.resolve("coordinator").first() is not None:
        pause.wait(0.2)
    group.cancel()


def together(workers: int, numbers: int) -> None:
    """One root job: the workers are its children."""
    with serving(Coordinator(workers)) as coordinator:
        own = sdk.ActorHandle("coordinator", sdk.context().info.job)
        group = sdk.create_actor_group(Worker, str(own), name="worker", count=workers, **SMALL)
        for handle in group.wait_ready(60):
            coordinator.join(str(handle))
        tell(coordinator.reduce(shards_of(numbers)), numbers)
        group.cancel()


@contextmanager
def serving(coordinator: Coordinator) -> Iterator[Coordinator]:
    """The actor on this job's port, and its name in this job's namespace."""
    around = sdk.context()
    with sdk.ActorServer(port=around.get_port("actor")) as server:
        server.register("coordinator", coordinator)
        server.serve_background()
        assert around.registry is not None
        with around.registry.register("coordinator", port=server.port):
            yield coordinator


def shards_of(numbers: int) -> list[list[int]]:
    return [list(range(start, numbers, 4)) for start in range(4)]


def tell(result: dict[str, Any], numbers: int) -> None:
    sdk.progress(numbers, numbers, "numbers", f"total {result['total']}")
    print(f"total={result['total']} workers={','.join(result['workers'])}", flush=True)
