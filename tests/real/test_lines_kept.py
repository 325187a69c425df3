"""OB-07, K3: containerd is killed while containers speak or end, again and again; no line and no end is lost."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from conftest import need_slow
from hostler.agent.containers.runtime import State
from hostler.agent.containers.spec import Bind
from support import containerd as support_containerd
from support.runtimes import Bed, bed_on, shared_directory

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers"), pytest.mark.timeout(240)]
SPEAKERS, KILLS = 3, 6
ROUNDS, AT_ONCE = 12, 8
SCRIPT = """n=0
while [ ! -e {stop} ]; do
  n=$((n+1)); echo "line $n"; echo "error $n" >&2
  [ $((n % 50)) = 0 ] && sleep 0.01
done
echo "all $n" """


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_containerd.Containerd]:
    need_slow("it kills containerd again and again")
    with support_containerd.containerd() as started:
        yield started


@pytest.fixture
async def bed(daemon: support_containerd.Containerd) -> AsyncIterator[Bed]:
    async with bed_on(daemon) as made:
        yield made


@pytest.fixture
def directory() -> Iterator[Path]:
    with shared_directory() as made:
        yield made


async def test_OB_07_K3_what_is_said_while_containerd_is_killed_again_and_again_is_told_once(
    bed: Bed, daemon: support_containerd.Containerd, directory: Path
) -> None:
    made = []
    script = SCRIPT.format(stop=directory / "stop")
    for _ in range(SPEAKERS):
        made.append(await bed.start(script, binds=(Bind(str(directory), str(directory), True),)))
    for _ in range(KILLS):
        await asyncio.sleep(random.uniform(0.02, 0.1))
        await asyncio.to_thread(daemon.restart)
    (directory / "stop").touch()
    for container in made:
        assert (await bed.runtime.wait(container)).state is State.EXITED
        told = Counter([line.text for line in await bed.output(container)])
        (last,) = [int(text.split()[1]) for text in told if text.startswith("all ")]
        expected = Counter([f"{word} {n}" for n in range(1, last + 1) for word in ("line", "error")] + [f"all {last}"])
        print(last, "lost", sum((expected - told).values()), "doubled", sum((told - expected).values()))
        assert told == expected


async def test_K3_an_end_that_comes_while_containerd_begins_is_learnt_of(
    bed: Bed, daemon: support_containerd.Containerd, directory: Path
) -> None:
    """containerd 1.6 takes about one of a hundred such containers for running until it is restarted."""
    directory.chmod(0o777)
    for number in range(ROUNDS):
        gates = [directory / f"{number}-{index}" for index in range(AT_ONCE)]
        made = []
        for gate in gates:
            os.mkfifo(gate)
            gate.chmod(0o666)
            bind = Bind(str(directory), str(directory), False)
            made.append(await bed.start(f"read word <{gate}; exit 7", binds=(bind,)))
        daemon.kill()
        opening = asyncio.create_task(opened(gates))
        await asyncio.to_thread(daemon.start)
        await opening
        async with asyncio.timeout(30):
            ends = [await bed.runtime.wait(container) for container in made]
        assert {(end.state, end.exit_code) for end in ends} == {(State.EXITED, 7)}, ends
        for container in made:
            async with asyncio.timeout(30):
                await bed.runtime.stop(container, 1.0)


async def opened(gates: list[Path]) -> None:
    """One after the other, about when containerd looks at what it finds."""
    await asyncio.sleep(random.uniform(0.02, 0.06))
    for gate in gates:
        await asyncio.to_thread(gate.write_text, "word\n")
        await asyncio.sleep(0.005)
