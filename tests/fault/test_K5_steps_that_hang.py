"""K5: what a dead file system holds, SIGKILL does not end. The step ends all the same, and the agent goes on.

The hang is a real one: a FUSE mount whose server never answers. `HOSTLER_TEST_HANGS` says how many at once.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.agent.host.host import Host
from hostler.agent.host.processes import hangs
from hostler.agent.steps.file_render import KIND as RENDER
from hostler.agent.steps.health_check import KIND as HEALTH
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.file import Render
from hostler.catalog.params.health import HealthCheck
from support.commands import host_in, run
from support.hanging import Hanging, hanging
from support.house import House, open_house
from support.steps import Told, context_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("hanging")]
HANGS = int(os.environ.get("HOSTLER_TEST_HANGS", "24"))
STAT = "/usr/bin/stat"


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Hanging]:
    with hanging(tmp_path / "root" / "dead") as made:
        yield made


async def end_of(running: Any) -> str:
    try:
        await running
    except HostlerError as err:
        return err.code
    return ""


async def gone(host: Host) -> None:
    """Nothing hangs any more."""
    for _ in range(1000):
        if not host.hung:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{host.hung} still hang")


def at_work() -> list[psutil.Process]:
    """What this process has started, and has not ended."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child] if child.status() != psutil.STATUS_ZOMBIE else []
    return found


async def test_K5_commands_that_hang_time_out_and_leave_no_helper_behind(dead: Hanging, tmp_path: Path) -> None:
    before = at_work()  # an earlier test's may end late
    async with host_in(tmp_path, parallel=HANGS) as host:
        path = str(dead.path / "x")
        ends = await asyncio.gather(*(end_of(run(host, STAT, path, seconds=3.0)) for _ in range(HANGS)))
        assert set(ends) == {"timeout"}
        left = [process for process in psutil.process_iter(["cmdline"]) if path in (process.info["cmdline"] or ())]
        assert 1 <= host.hung == len(left) <= HANGS, "each that was started is known to hang"
        assert (await run(host, "/usr/bin/true")).status == 0, "the door is open for others"
        dead.release()
        await gone(host)
    assert [child for child in at_work() if child not in before] == []  # what has ended has gone


async def test_K5_an_executable_on_a_dead_file_system_does_not_hold_the_step(dead: Hanging, tmp_path: Path) -> None:
    """The helper itself hangs, not only what it started."""
    async with host_in(tmp_path) as host:
        await run(host, "/usr/bin/true")  # a helper is up, and takes its order at once
        async with asyncio.timeout(30):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):  # what the runner does with a step that does not end by itself
                    await run(host, str(dead.path / "program"), seconds=0.5)
        assert host.hung == 1
        assert (await run(host, "/usr/bin/true")).status == 0
        dead.release()
        await gone(host)


async def test_K5_looks_that_hang_hold_one_thread_however_often_they_are_asked(dead: Hanging, tmp_path: Path) -> None:
    host = Host(root=tmp_path / "root", spool=tmp_path / "spool")
    checks = [{"type": "file", "path": "/dead/x"}, {"type": "disk", "path": "/dead/y"}]
    params = convert({"checks": checks, "check_timeout_seconds": 0.05}, HealthCheck)
    before = threading.active_count()
    for _ in range(HANGS):
        assert await end_of(HEALTH.apply(context_of(params, host, Told()))) == "health_red"
        assert host.hung <= len(checks)
    assert threading.active_count() <= before + len(checks)
    dead.release()
    await gone(host)


async def test_K5_steps_on_a_dead_file_system_end_and_after_some_no_more_threads_are_begun(
    dead: Hanging, tmp_path: Path
) -> None:
    host = Host(root=tmp_path / "root", spool=tmp_path / "spool")
    before = threading.active_count()
    for number in range(40):
        params = Render(path=f"/dead/{number}", template="x\n")
        step = RENDER.apply(context_of(params, host, Told()))
        assert await end_of(_within(step)) == "timeout"
    assert host.hung == 32
    assert threading.active_count() <= before + 32
    dead.release()
    await gone(host)
    (tmp_path / "root/srv").mkdir()
    await RENDER.apply(context_of(Render(path="/srv/x", template="x\n"), host, Told()))


async def _within(step: Any) -> None:
    """As the runner gives up a step that does not keep its deadline."""
    from hostler.base.errors import error

    try:
        async with asyncio.timeout(0.05):
            await step
    except TimeoutError:
        raise error("timeout", "given up") from None


async def test_K5_the_agent_s_end_does_not_wait_for_ever(
    dead: Hanging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.agent.host.helpers.CLOSE_LIMIT_S", 0.2)
    host = Host(spool=tmp_path / "spool")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await run(host, str(dead.path / "program"), seconds=0.5)
    async with asyncio.timeout(20):
        await host.close()
    dead.release()
    await gone(host)
    async with asyncio.timeout(20):
        await host.close()


def test_K5_a_process_that_only_sleeps_does_not_hang() -> None:
    assert not hangs(os.getpid())
    assert not hangs(2**22 + 1)


LOOK = {
    "id": "look", "command": STAT, "args": ["--", "${path}"], "timeout_seconds": 1,
    "arg_schema": {"path": {"type": "string", "pattern": "^/[A-Za-z0-9_/.-]+$"}},
}  # fmt: skip
DEFINITION = {
    "type": "unit.look",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"path": {"type": "string"}}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {
            "id": "one",
            "kind": "command.exec_allowlisted",
            "params": {"profile": "look", "args": {"path": "${inputs.path}"}},
        }
    ],
}


def test_K5_through_the_whole_house_the_step_times_out_the_node_is_degraded_and_goes_on(tmp_path: Path) -> None:
    with hanging(tmp_path / "dead") as dead, open_house([DEFINITION], [LOOK]) as house:
        _allow(tmp_path)
        house.serve()
        house.enrol("a")
        house.start("a")
        hung = [house.submit("unit.look@v1", {"path": f"{dead.path}/{number}"}) for number in range(3)]
        for operation_id in hung:
            assert house.finished(house.submit("node.smoke.noop@v1"))["status"] == "succeeded"
            operation = house.finished(operation_id)
            assert (operation["status"], operation["error_code"]) == ("failed", "timeout")
        _reaches(house, "degraded")
        assert house.node("a")["connection"] == "connected"
        dead.release()
        _reaches(house, "")
        assert house.finished(house.submit("node.smoke.noop@v1"))["status"] == "succeeded"


def _reaches(house: House, drift: str) -> None:
    house.until(lambda: bool(house.node("a")["drift"] == drift), limit_s=60)


def _allow(path: Path) -> None:
    """The command runs as somebody else, who must be able to get there."""
    for directory in (path, *path.parents):
        if directory != Path("/tmp") and str(directory).startswith("/tmp/"):
            directory.chmod(directory.stat().st_mode | 0o055)
