"""OB-07, K3: containerd is killed while containers speak, again and again; no line is lost or told twice.

Once a container ended while containerd was away, and containerd 1.6 called it running for ever afterwards: nobody takes
the word of its task service for that yet, so this stands outside of the usual run.
"""

import asyncio
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
