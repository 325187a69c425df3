"""K6: a command that detaches, leaves its session, ignores SIGTERM and forks faster than anybody looks is gone whole.

Its control group is ended at once when even the helper that watches it is gone.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.agent.host.cgroups import Groups
from hostler.agent.host.host import Host
from hostler.base.errors import HostlerError
from support.commands import STUBBORN, alive, host_in, python, run, until

pytestmark = pytest.mark.timeout(120)

# Double fork, a session of its own, SIGTERM, SIGHUP and SIGINT ignored, and a child that replaces itself for ever.
RESTLESS = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        while True:
            if os.fork():
                os._exit(0)
            open(sys.argv[2], "w").write(str(os.getpid()))
            time.sleep(0.002)
    os._exit(0)
time.sleep(60)
"""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with host_in(tmp_path) as made:
        yield made


def descendants(mark: Path) -> list[int]:
    """Processes whose command line names this test's own file."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(mark) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid() and alive(pid)]


@pytest.mark.parametrize("end", ["timeout", "canceled"])
async def test_K6_EX_08_a_tree_that_forks_for_ever_is_gone_after_a_timeout_or_a_cancel(
    host: Host, tmp_path: Path, end: str
) -> None:
    note, last, cancelled = tmp_path / "pid", tmp_path / "last", asyncio.Event()

    async def cancel() -> None:
        await until(last)
        cancelled.set()

    async with asyncio.TaskGroup() as group:
        if end == "canceled":
            group.create_task(cancel())
        seconds = 60 if end == "canceled" else 1.0
        with pytest.raises(HostlerError) as ended:
            await run(host, *python(RESTLESS, str(note), str(last)), seconds=seconds, cancelled=cancelled)
    assert ended.value.code == end
    assert descendants(note) == []


async def test_K6_what_a_command_leaves_when_its_helper_is_killed_goes_with_the_control_group(
    host: Host, tmp_path: Path
) -> None:
    if Groups("probe")._base is None:
        pytest.skip("no control group of this process can be written here")
    note = tmp_path / "pid"
    kills = (
        STUBBORN
        + "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.005)\nos.kill(os.getppid(), 9)\ntime.sleep(60)"
    )
    with pytest.raises(HostlerError) as ended:
        await run(host, *python(kills, str(note)))
    assert ended.value.code == "interrupted_apply"
    pid = int(await until(note))
    try:
        for _ in range(300):
            if not alive(pid):
                break
            await asyncio.sleep(0.01)
        assert not alive(pid)
    finally:
        for left in descendants(note):
            os.kill(left, signal.SIGKILL)  # ours, by its own file's name


async def test_K6_a_polite_tree_is_asked_before_it_is_ended(host: Host, tmp_path: Path) -> None:
    """SIGTERM first: what wants to clean up may."""
    note = tmp_path / "note"
    code = (
        "import signal, sys, time\n"
        "def bye(*_): open(sys.argv[1], 'w').write('clean'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\nopen(sys.argv[1] + '.up', 'w').write('x')\ntime.sleep(60)\n"
    )
    cancelled = asyncio.Event()

    async def cancel() -> None:
        await until(tmp_path / "note.up")
        cancelled.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(cancel())
        with pytest.raises(HostlerError):
            await run(host, *python(code, str(note)), cancelled=cancelled, grace_s=10.0)
    assert note.read_text() == "clean"
