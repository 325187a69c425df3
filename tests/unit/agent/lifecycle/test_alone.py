"""U1: never two agents on one node's state."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.agent.lifecycle.alone import LOCK, alone
from hostler.base.errors import HostlerError

OTHER = """
import asyncio, sys
from pathlib import Path
from hostler.agent.lifecycle.alone import alone

async def hold():
    async with alone(Path(sys.argv[1]), 0.0):
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


def other(state: Path) -> subprocess.Popen[bytes]:
    """Another process that holds the lock."""
    made = subprocess.Popen([sys.executable, "-c", OTHER, str(state)], stdout=subprocess.PIPE)
    assert made.stdout is not None
    with made.stdout as said:
        assert said.readline() == b"held\n"
    return made


async def enter(state: Path, wait_s: float) -> None:
    async with alone(state, wait_s):
        pass


def test_U1_a_second_agent_is_refused_while_the_first_lives_and_takes_over_when_it_was_killed(tmp_path: Path) -> None:
    first = other(tmp_path)
    with pytest.raises(HostlerError) as caught:
        asyncio.run(enter(tmp_path, 0.2))
    assert caught.value.code == "already_running"
    first.kill()
    first.wait()
    asyncio.run(enter(tmp_path, 0.0))


def test_U1_one_that_is_on_its_way_out_is_waited_for(tmp_path: Path) -> None:
    first = other(tmp_path)

    async def both() -> None:
        asyncio.get_running_loop().call_later(0.3, first.kill)
        await enter(tmp_path, 10)

    asyncio.run(both())
    first.wait()


def test_U1_what_outlives_the_agent_does_not_keep_the_next_from_starting(tmp_path: Path) -> None:
    """A child that was forked and has not ended."""

    async def with_child() -> int:
        async with alone(tmp_path, 0.0):
            pid = os.fork()
            if pid == 0:
                os.read(ours, 1)
                os._exit(0)
            return pid

    ours, theirs = os.pipe()
    pid = asyncio.run(with_child())
    first = other(tmp_path)
    first.kill()
    first.wait()
    os.write(theirs, b"x")
    os.waitpid(pid, 0)


def test_a_state_directory_that_takes_no_lock_is_said_so(tmp_path: Path) -> None:
    (tmp_path / LOCK).symlink_to("elsewhere")
    with pytest.raises(HostlerError) as caught:
        asyncio.run(enter(tmp_path, 0.0))
    assert caught.value.code == "storage_unhealthy"
