"""Measurements of nodes on their way to people: the newest of each in memory, the rest waiting to be filed (OB-09).

Written by links, read by the API and `/metrics`, drained by `loops.samples`. No decision reads it: losing it all loses
nothing but the measurements. What a node may put here is bounded in rate, in size and in number.
"""

import math
from collections import deque
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hostler.base.clock import Clock
from hostler.control.store.samples import FIELDS, StoredSample
from hostler.wire.node import UNKNOWN, Sample

LEAST_S = 10.0  # between two samples of a node; what comes sooner is dropped
MOST_WAITING = 20_000  # samples that wait to be filed; the oldest go first
MOST_NODES = 20_000
STALE_MS = 600_000
_MOST = 1 << 60
_HELP = {
    "cpu_percent": "Of all cores together",
    "load_1m": "Load average over a minute",
    "memory_used_bytes": "Memory that is in use",
    "memory_total_bytes": "Memory of the node",
    "disk_used_bytes": "Used of the file system that the agent's root is on",
    "disk_total_bytes": "Size of that file system",
    "gpu_percent": "Mean over the GPUs that tell by files",
    "gpu_memory_used_bytes": "Memory of those GPUs that is in use",
    "gpu_memory_total_bytes": "Memory of those GPUs",
    "containers": "Containers that containerd holds, sandboxes too",
}


class SampleBoard:
    """Args:
    keep: False where nothing is filed; the newest is shown all the same.
    shown: how many nodes may have series of their own.
    """

    def __init__(self, clock: Clock, *, keep: bool = True, shown: int = 200) -> None:
        self._clock, self._keep, self._shown = clock, keep, shown
        self._newest: dict[str, StoredSample] = {}
        self._due: dict[str, float] = {}
        self._waiting: deque[StoredSample] = deque(maxlen=MOST_WAITING)
        self.taken = self.dropped = 0

    def put(self, node_id: str, said: Sample) -> None:
        """Under our own time: a node's clock files nothing in the past or the future."""
        now = self._clock.monotonic()
        if now < self._due.get(node_id, 0.0) or (node_id not in self._newest and len(self._newest) >= MOST_NODES):
            self.dropped += 1
            return
        self._due[node_id] = now + LEAST_S
        values = {name: _bounded(getattr(said, name)) for name in FIELDS}
        sample = StoredSample(node_id=node_id, at_ms=self._clock.now_ms(), **values)
        self._newest[node_id] = sample
        self.taken += 1
        if self._keep:
            self.dropped += len(self._waiting) == MOST_WAITING
            self._waiting.append(sample)

    def newest(self, node_id: str) -> StoredSample | None:
        found = self._newest.get(node_id)
        return found if found and self._clock.now_ms() - found.at_ms <= STALE_MS else None

    def drain(self) -> list[StoredSample]:
        """Everything that waits to be filed; it is the caller's from here on."""
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def forget_stale(self) -> None:
        """Nodes of which nothing has been heard for a while."""
        oldest = self._clock.now_ms() - STALE_MS
        for node_id in [name for name, sample in self._newest.items() if sample.at_ms < oldest]:
            del self._newest[node_id]
            self._due.pop(node_id, None)

    def shown(self) -> list[StoredSample]:
        """Fresh ones, of as many nodes as may have series; the same nodes each time."""
        fresh = [sample for name in sorted(self._newest) if (sample := self.newest(name)) is not None]
        return fresh[: self._shown]


class NodeGauges(Collector):
    """Series of nodes for Prometheus: one for each field and node, of so many nodes and no more."""

    def __init__(self, board: SampleBoard) -> None:
        self._board = board

    def describe(self) -> list[GaugeMetricFamily]:
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        shown = self._board.shown()
        for name in FIELDS:
            family = GaugeMetricFamily(f"hostler_node_{name}", _HELP[name], labels=("node_id",))
            for sample in shown:
                if (value := getattr(sample, name)) != UNKNOWN:
                    family.add_metric((sample.node_id,), float(value))
            yield family
        counts = {"taken": self._board.taken, "dropped": self._board.dropped}
        told = GaugeMetricFamily("hostler_node_samples", "Measurements of nodes since the start", labels=("result",))
        for result, count in counts.items():
            told.add_metric((result,), count)
        yield told


def _bounded(value: float) -> float:
    """-1 for what makes no sense."""
    if not math.isfinite(value) or not 0 <= value <= _MOST:
        return UNKNOWN
    return value
