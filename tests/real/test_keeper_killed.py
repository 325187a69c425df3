"""OB-07, K3: the keeper of containers is killed beside an agent that goes on; what they say waits for the next one."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hostler.agent.containers.process_link import Link
from hostler.agent.containers.runtime import State
from hostler.agent.containers.spec import Bind
from support import containerd as support_containerd
from support.runtimes import Bed, bed_on, shared_directory, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]
LINES = 20_000  # more than a pipe holds
SCRIPT = f"""echo first
while [ ! -e {{go}} ]; do sleep 0.02; done
n=0; while [ $n -lt {LINES} ]; do n=$((n+1)); echo "line $n"; done; exit 3"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_containerd.Containerd]:
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


async def test_OB_07_what_is_said_while_there_is_no_keeper_is_brought_by_the_next_one(
    bed: Bed, daemon: support_containerd.Containerd, directory: Path
) -> None:
    script = SCRIPT.format(go=directory / "go")
    bind = Bind(str(directory), str(directory), True)
    made = [await bed.start(script, binds=(bind,)) for _ in range(2)]
    waiting = [asyncio.ensure_future(bed.runtime.wait(each)) for each in made]
    for each in made:
        await until(lambda each=each: bed.output(each, follow=False))
    place = daemon.place / "run" / "keeper"
    first = Link.listener(place)
    os.kill(first, signal.SIGKILL)
    await until(lambda: _is_gone(place, first))
    (directory / "go").touch()
    for each, waited in zip(made, waiting, strict=True):
        async with asyncio.timeout(60):
            status = await waited
        assert (status.state, status.exit_code) == (State.EXITED, 3)
        said = [line.text for line in await bed.output(each)]
        assert said == ["first", *(f"line {n}" for n in range(1, LINES + 1))]
    assert Link.listener(place) not in (0, first)


async def _is_gone(place: Path, keeper: int) -> bool:
    return Link.listener(place) != keeper
