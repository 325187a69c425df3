"""CG-04: the node notices at once what it gains and loses, and looks at nothing while nothing happens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hostler.agent.capability_watch import CapabilityWatch

LONG_S = 600.0


class Machine:
    """Has a container runtime while its socket is there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "run/containerd").mkdir(parents=True)
        self.looks = 0
        self.broken = False
        self.heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    def detect(self, root: Path) -> dict[str, str]:
        self.looks += 1
        if self.broken:
            raise OSError("sick")
        there = (root / "run/containerd/containerd.sock").exists()
        return {"container.runtime": "containerd" if there else "other"}

    @asynccontextmanager
    async def watched(self, longest_wait_s: float = LONG_S) -> AsyncIterator[None]:
        watch = CapabilityWatch(
            self.root, self.detect, self.detect(self.root), self.heard.put_nowait, longest_wait_s=longest_wait_s
        )
        running = asyncio.create_task(watch.run())
        try:
            while self.looks < 2:
                await asyncio.sleep(0.01)
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def next(self) -> str:
        async with asyncio.timeout(30):
            return (await self.heard.get())["container.runtime"]


async def test_CG_04_a_runtime_that_comes_and_goes_is_told_by_the_kernel_and_not_by_the_clock(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with machine.watched():
        socket = tmp_path / "run/containerd/containerd.sock"
        socket.touch()
        assert await machine.next() == "containerd"
        socket.unlink()
        assert await machine.next() == "other"


async def test_CG_04_many_entries_at_once_are_few_looks_and_no_news_is_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with machine.watched():
        for number in range(500):
            (tmp_path / "run" / f"other{number}").touch()
        (tmp_path / "run/containerd/containerd.sock").touch()
        assert await machine.next() == "containerd"
        assert machine.looks < 20
        assert machine.heard.empty()


async def test_CG_04_what_makes_no_entry_is_found_by_looking_now_and_then_also_after_a_failure(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with machine.watched(longest_wait_s=0.02):
        machine.broken = True
        looks = machine.looks
        while machine.looks < looks + 3:
            await asyncio.sleep(0.01)
        (tmp_path / "run/containerd/containerd.sock").touch()
        machine.broken = False
        assert await machine.next() == "containerd"
