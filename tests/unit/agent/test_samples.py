"""OB-09: what a node measures, from files alone."""

import asyncio
import random
from pathlib import Path

import pytest

from hostler.agent.samples import Samples
from hostler.wire.codec_node import agent_message, agent_value
from hostler.wire.node import Heartbeat, Sample
from support.clocks import StillClock

FILES = {
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1\n",
    "proc/meminfo": "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    250 kB\n",
    "proc/loadavg": "1.25 0.5 0.25 1/200 4242\n",
    "sys/class/drm/card0/device/gpu_busy_percent": "30\n",
    "sys/class/drm/card0/device/mem_info_vram_used": "10\n",
    "sys/class/drm/card0/device/mem_info_vram_total": "100\n",
    "sys/class/drm/card1/device/gpu_busy_percent": "50\n",
    "sys/class/drm/card1/device/mem_info_vram_used": "20\n",
    "sys/class/drm/card1/device/mem_info_vram_total": "100\n",
    "run/containerd/io.containerd.runtime.v2.task/moby/one/pid": "1",
    "run/containerd/io.containerd.runtime.v2.task/k8s.io/two/pid": "2",
}


def machine(root: Path, **changes: str) -> Path:
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changes.get(path.name, text))
    return root


def samples(root: Path, every_s: float = 30) -> Samples:
    return Samples(root, StillClock(), random.Random(1), every_s)


def test_OB_09_processors_memory_disk_gpus_and_containers(tmp_path: Path) -> None:
    made = samples(machine(tmp_path))
    first = made.take()
    assert first.cpu_percent == -1, "one look says nothing of how busy it is"
    (tmp_path / "proc/stat").write_text("cpu  150 0 150 900 0 0 0 0 0 0\n")
    found = made.take()
    assert found.cpu_percent == 50
    assert found.load_1m == 1.25
    assert (found.memory_used_bytes, found.memory_total_bytes) == (750 * 1024, 1000 * 1024)
    assert 0 < found.disk_used_bytes < found.disk_total_bytes
    assert (found.gpu_percent, found.gpu_memory_used_bytes, found.gpu_memory_total_bytes) == (40, 30, 200)
    assert found.containers == 2


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu x y z w v\n", "\0" * 100, "intr 1 2 3 4 5 6\n"])
def test_OB_09_what_no_file_tells_is_unknown_and_never_an_error(tmp_path: Path, text: str) -> None:
    made = samples(machine(tmp_path, stat=text, meminfo=text, loadavg=text, gpu_busy_percent=text))
    made.take()
    found = made.take()
    assert (found.cpu_percent, found.load_1m, found.memory_used_bytes, found.gpu_percent) == (-1, -1, -1, -1)


def test_OB_09_an_empty_machine_has_nothing_to_tell(tmp_path: Path) -> None:
    found = samples(tmp_path).take()
    assert (found.containers, found.gpu_memory_total_bytes, found.load_1m) == (-1, -1, -1)


async def test_OB_09_each_sample_is_given_once(tmp_path: Path) -> None:
    made = samples(machine(tmp_path), every_s=0.01)
    running = asyncio.create_task(made.run())
    async with asyncio.timeout(5):
        while (found := made.next()) is None:
            await asyncio.sleep(0.01)
    running.cancel()
    assert found.load_1m == 1.25
    off = samples(tmp_path, every_s=0)
    await asyncio.wait_for(off.run(), 1)
    assert off.next() is None


def test_OB_09_it_travels_with_a_heartbeat_and_an_older_agent_sends_none() -> None:
    sample = Sample(at_ms=7, cpu_percent=12.5, containers=3)
    for beat in (Heartbeat(sample=sample), Heartbeat()):
        assert agent_value(agent_message(beat)) == beat
