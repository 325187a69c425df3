"""What starting a command costs, against starting it bare, in one run on one machine."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import pytest

from hostler.agent.host.host import Host
from support.commands import ME, host_in, run

pytestmark = pytest.mark.real
ROUNDS = 200
TRIES = 12


def bare() -> float:
    start = time.perf_counter()
    os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
    return time.perf_counter() - start


async def through(host: Host, number: int) -> float:
    start = time.perf_counter()
    done = await run(
        host, "/usr/bin/true", record=("tsk_1", number), capture_stdout=False, capture_stderr=False, run_as=ME
    )
    assert done.status == 0
    return time.perf_counter() - start


async def best(measure: Callable[[], Awaitable[float]], enough: float) -> float:
    """The machine is shared and noise only ever adds: once it was quiet for a moment, `enough` is not exceeded."""
    found = await measure()
    for _ in range(TRIES - 1):
        if found < enough:
            break
        found = min(found, await measure())
    return found


async def test_a_command_costs_little_more_than_its_bare_start(tmp_path: Path) -> None:
    async with host_in(tmp_path) as host:
        await through(host, 0)

        async def ratio() -> float:
            alone = median(bare() for _ in range(ROUNDS))
            whole = median([await through(host, n) for n in range(ROUNDS)])
            print(f"bare {alone * 1e3:.2f} ms, through a helper {whole * 1e3:.2f} ms")
            return whole / alone

        assert await best(ratio, 3) < 3


async def test_eight_at_once_start_more_than_three_hundred_a_second(tmp_path: Path) -> None:
    """Measured 2,200 on two cores; the bound only notices a wrong turn."""
    async with host_in(tmp_path, parallel=8) as host:

        async def seconds() -> float:
            numbers = iter(range(ROUNDS))

            async def worker() -> None:
                for number in numbers:
                    await through(host, number)

            start = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for _ in range(8):
                    group.create_task(worker())
            return time.perf_counter() - start

        assert await best(seconds, ROUNDS / 300) < ROUNDS / 300
