"""K2, K3, OB-07: containerd, or whoever asks it, is killed in the middle of a start or of an end."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hostler.agent.containers.runtime import State
from hostler.agent.containers.spec import Bind
from hostler.base.errors import HostlerError
from support import containerd as support_containerd
from support.runtimes import Bed, answered, bed_on, runtime_on, shared_directory, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]
AT_ONCE = 4


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_containerd.Containerd]:
    with support_containerd.containerd() as started:
        yield started


@pytest.fixture
async def bed(daemon: support_containerd.Containerd) -> AsyncIterator[Bed]:
    async with bed_on(daemon) as made:
        yield made


@pytest.fixture
def ledger() -> Iterator[Path]:
    """A directory in which containers count what they did."""
    with shared_directory(0o777) as made:
        yield made


async def created(bed: Bed, ledger: Path, number: int, script: str) -> str:
    count = f"echo x >> {ledger}/{number}; {script}"
    made: str = await bed.runtime.create(bed.spec(count, binds=(Bind(str(ledger), str(ledger), False),)))
    bed.names.append(made)
    return made


async def ran(ledger: Path, number: int) -> int:
    """How often, once it must have come so far."""
    with contextlib.suppress(TimeoutError):
        await until(lambda: _times(ledger, number))
    await asyncio.sleep(0.1)
    return await _times(ledger, number)


async def _times(ledger: Path, number: int) -> int:
    path = ledger / str(number)
    return len(path.read_text().split()) if path.exists() else 0


async def test_K2_a_start_goes_on_when_whoever_asked_for_it_dies(
    bed: Bed, daemon: support_containerd.Containerd, ledger: Path
) -> None:
    """Without a keeper containerd gives such a start up, and says that it failed."""
    made = [await created(bed, ledger, number, "sleep 60") for number in range(AT_ONCE)]
    await bed.start("true")  # its keeper is there
    agent = runtime_on(daemon)
    for number, container in enumerate(made):
        starting = asyncio.ensure_future(agent.start(container))
        await asyncio.sleep(0.02 + 0.02 * number)
        starting.cancel()
    await agent.close()
    for number, container in enumerate(made):
        await _started(bed, container)
        assert (await bed.runtime.status(container)).state is State.RUNNING
        assert await ran(ledger, number) == 1


async def test_K3_what_containerd_was_killed_at_starting_runs_once_or_is_known_not_to_have_run(
    bed: Bed, daemon: support_containerd.Containerd, ledger: Path
) -> None:
    await bed.start("true")
    made = [await created(bed, ledger, number, "exec sleep 60") for number in range(AT_ONCE)]
    starting = [asyncio.ensure_future(_started(bed, container)) for container in made]
    await asyncio.sleep(0.25)
    await asyncio.to_thread(daemon.restart)
    ends = await asyncio.gather(*starting, return_exceptions=True)
    seen = {}
    for number, (container, end) in enumerate(zip(made, ends, strict=True)):
        if end is not None:  # it had begun, and the next containerd has ended it: nobody may begin it again
            assert isinstance(end, HostlerError), end
            assert (end.code, await _times(ledger, number) <= 1) == ("container_lost", True), end
            continue
        state = (await until(lambda container=container: answered(bed.runtime.status(container)))).state
        seen[number] = (state, await (ran if state is State.RUNNING else _times)(ledger, number))
        if state is State.UNSTARTED:
            await bed.runtime.remove(container)
    assert set(seen.values()) <= {(State.RUNNING, 1), (State.UNSTARTED, 0)}, seen


async def _started(bed: Bed, container: str) -> None:
    async def once() -> bool:
        return await answered(_start(bed, container)) is not None

    await until(once, 30)


async def _start(bed: Bed, container: str) -> bool:
    await bed.runtime.start(container)
    return True


async def test_K3_OB_07_the_end_and_the_last_words_of_what_ended_while_containerd_was_away(
    bed: Bed, daemon: support_containerd.Containerd, ledger: Path
) -> None:
    wait = f"while [ ! -e {ledger}/go ]; do sleep 0.02; done"
    script = f"echo first; {wait}; echo last; echo error >&2; printf half; echo x > {ledger}/over; exit 7"
    made = [await created(bed, ledger, number, script) for number in range(3)]
    for container in made:
        await bed.runtime.start(container)
    first = made[0]
    assert await until(lambda: _said(bed, first))
    daemon.kill()
    try:
        (ledger / "go").touch()
        end = time.monotonic() + 10
        while not (ledger / "over").exists():
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
    finally:
        daemon.start()
    again = runtime_on(daemon)  # the agent was killed too
    for container in made:
        status = await again.wait(container)
        assert (status.state, status.exit_code) == (State.EXITED, 7)
        said = [(line.stream, line.text) async for line in again.logs(container, follow=True)]
        assert sorted(said) == [("stderr", "error"), ("stdout", "first"), ("stdout", "half"), ("stdout", "last")]
    await again.close()


async def _said(bed: Bed, container: str) -> bool:
    return bool(await bed.output(container, follow=False))


async def test_K3_one_keeper_serves_every_agent_of_the_node(bed: Bed, daemon: support_containerd.Containerd) -> None:
    place = daemon.place / "run" / "keeper"
    await bed.start("true")
    keeper = _listens_in(place)
    agents = [runtime_on(daemon) for _ in range(3)]
    for agent in agents:
        made = await agent.create(bed.spec("true"))
        bed.names.append(made)
        await agent.start(made)
        assert agent.pids() == frozenset(), "it started none of its own"
        await agent.close()
    assert _listens_in(place) == keeper
    assert place.stat().st_mode & 0o777 == 0o700


def _listens_in(place: Path) -> int:
    """Process id."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(str(place / "s"))
        return int(struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
