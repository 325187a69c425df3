"""A coordinator and two workers that find each other by name, in namespaces of their own.

job /ann/coordinator            serves `coordinator`, hands out shards, adds up what comes back
job /ann/workers                creates worker-0 and worker-1, tells the coordinator where they are
    /ann/workers/worker-0       serves `worker-0` in the namespace /ann/workers
    /ann/workers/worker-1       serves `worker-1` there as well
"""

import threading
from collections.abc import Sequence
from typing import Any

from hostler import sdk


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
    around = sdk.context()
    coordinator = Coordinator(workers)
    with sdk.ActorServer(port=around.get_port("actor")) as server:
        server.register("coordinator", coordinator)
        server.serve_background()
        assert around.registry is not None
        with around.registry.register("coordinator", port=server.port):
            shards = [list(range(start, numbers, 4)) for start in range(4)]
            result = coordinator.reduce(shards)
    sdk.progress(numbers, numbers, "numbers", f"total {result['total']}")
    print(f"total={result['total']} workers={','.join(result['workers'])}")


def work(coordinator_job: str, workers: int) -> None:
    """The workers' job: its children are the actors; it ends when the coordinator is gone."""
    coordinator = sdk.ActorHandle("coordinator", coordinator_job)
    group = sdk.create_actor_group(Worker, str(coordinator), name="worker", count=workers)
    for handle in group.wait_ready(60):
        coordinator.join(str(handle))
    resolver = sdk.context().resolver_for_job(coordinator_job)
    pause = threading.Event()
    while resolver.resolve("coordinator").first() is not None:
        pause.wait(0.2)
    group.cancel()
