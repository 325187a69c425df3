"""How busy this node is, as the kernel tells it (OB-09). Measurements only: nothing here decides anything.

Loop `Samples.run`: every `every_s`, give or take a tenth so that a fleet does not speak at once, reads a few files of
/proc and /sys in a thread. No process is started; what no file tells is -1. The newest goes with the next heartbeat.
"""

import asyncio
import math
import os
import random
from pathlib import Path

from hostler.agent.hardware.tree import entries, is_there, read
from hostler.base.clock import Clock
from hostler.base.logs import get_logger
from hostler.wire.node import UNKNOWN, Sample

_log = get_logger("hostler.agent.samples")
_TASKS = "run/containerd/io.containerd.runtime.v2.task"
_JITTER = 0.1


class Samples:
    """Args:
    every_s: 0 for never.
    """

    def __init__(self, root: Path, clock: Clock, rng: random.Random, every_s: float) -> None:
        self._root, self._clock, self._rng, self._every_s = root, clock, rng, every_s
        self._cpu: tuple[int, int] | None = None
        self._newest: Sample | None = None

    async def run(self) -> None:
        while self._every_s > 0:
            try:
                self._newest = await asyncio.to_thread(self.take)
            except OSError as err:
                _log.warning("samples.not_taken", reason=str(err))
            await asyncio.sleep(self._every_s * self._rng.uniform(1 - _JITTER, 1 + _JITTER))

    def next(self) -> Sample | None:
        """The newest that has not been given before."""
        newest, self._newest = self._newest, None
        return newest

    def take(self) -> Sample:
        """Blocks as long as a few reads take."""
        memory = _memory(read(self._root / "proc/meminfo"))
        disk_used, disk_total = _disk(self._root)
        gpu_percent, gpu_used, gpu_total = _amd_gpus(self._root)
        return Sample(
            at_ms=self._clock.now_ms(),
            cpu_percent=self._cpu_percent(read(self._root / "proc/stat")),
            load_1m=_first_number(read(self._root / "proc/loadavg")),
            memory_used_bytes=memory[0],
            memory_total_bytes=memory[1],
            disk_used_bytes=disk_used,
            disk_total_bytes=disk_total,
            gpu_percent=gpu_percent,
            gpu_memory_used_bytes=gpu_used,
            gpu_memory_total_bytes=gpu_total,
            containers=_containers(self._root),
        )

    def _cpu_percent(self, stat: str) -> float:
        """Of all cores together, since the sample before."""
        now = _ticks(stat)
        before, self._cpu = self._cpu, now
        if now is None or before is None or now[1] <= before[1]:
            return UNKNOWN
        return 100 * max(0.0, min(1.0, (now[0] - before[0]) / (now[1] - before[1])))


def _ticks(stat: str) -> tuple[int, int] | None:
    """Busy and all ticks. Guests are counted within user already."""
    fields = stat.partition("\n")[0].split()[1:9]
    if len(fields) < 5 or not all(field.isdigit() for field in fields):
        return None
    numbers = [int(field) for field in fields]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def _first_number(text: str) -> float:
    try:
        found = float(text.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return UNKNOWN
    return found if math.isfinite(found) else UNKNOWN


def _memory(text: str) -> tuple[int, int]:
    """Used is what could not be had without swapping."""
    said = {name: rest.split() for line in text.splitlines() for name, _, rest in (line.partition(":"),)}
    try:
        total, available = (int(said[name][0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    except (KeyError, IndexError, ValueError):
        return UNKNOWN, UNKNOWN
    return total - available, total


def _disk(root: Path) -> tuple[int, int]:
    try:
        found = os.statvfs(root)
    except OSError:
        return UNKNOWN, UNKNOWN
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_blocks * found.f_frsize


def _amd_gpus(root: Path) -> tuple[float, int, int]:
    """AMD's driver tells by files; others tell only to their vendor's tool, which is not started here."""
    busy, used, total = [], 0, 0
    for name in entries(root / "sys/class/drm"):
        device = root / "sys/class/drm" / name / "device"
        percent = read(device / "gpu_busy_percent")
        if not (name.startswith("card") and "-" not in name and percent.isdigit()):
            continue
        busy.append(int(percent))
        used += _bytes(read(device / "mem_info_vram_used"))
        total += _bytes(read(device / "mem_info_vram_total"))
    return (sum(busy) / len(busy), used, total) if busy else (UNKNOWN, UNKNOWN, UNKNOWN)


def _bytes(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _containers(root: Path) -> int:
    """Those that containerd holds, Docker's and sandboxes too; -1 where it does not run or cannot be seen."""
    if not is_there(root / _TASKS):
        return UNKNOWN
    return sum(len(entries(root / _TASKS / namespace)) for namespace in entries(root / _TASKS))
