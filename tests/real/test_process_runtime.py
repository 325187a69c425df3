"""What only the process runtime has to do itself: outlive the agent, wall in, bind, clear up after its supervisor."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import need, need_root
from hostler.agent.containers import groups
from hostler.agent.containers.process import Process
from hostler.agent.containers.runtime import State
from hostler.agent.containers.spec import Bind, Limits
from support.mutant import child_of_a_test
from support.runtimes import Bed, Gate, shared_directory, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]
AGENT = """
import asyncio, sys, time
from pathlib import Path
from hostler.agent.containers.process import Process
from hostler.agent.containers.spec import ContainerSpec, Limits
async def main():
    runtime = Process(Path(sys.argv[1]))
    spec = ContainerSpec(
        name="kept", image="", command=("/bin/busybox", "sh", "-c", sys.argv[2]), environment={"PATH": "/bin"},
        labels={"hostler.task": "t"}, limits=Limits(memory_bytes=64 << 20),
    )
    await runtime.start(await runtime.create(spec))
    print("started", flush=True)
    time.sleep(60)
asyncio.run(main())
"""


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    need("busybox")
    need_root()
    made = Bed(Process(tmp_path / "processes"), "")
    yield made
    await made.clear()


async def test_K3_a_process_outlives_the_agent_that_started_it(bed: Bed, tmp_path: Path) -> None:
    with shared_directory() as place:
        gate = Gate(place)
        count = "while [ $i -lt {} ]; do echo $i; i=$((i+1)); done"
        script = f"i=0; {count.format(10)}; {gate.wait}; {count.format(20)}; exit 17"
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(tmp_path / "processes"), script],
            stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert agent.stdout is not None
        assert agent.stdout.readline() == "started\n"
        os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
        agent.stdout.close()
        (found,) = await bed.runtime.list({"hostler.task": "t"})
        bed.names.append(found.id)
        assert found.state is State.RUNNING
        gate.open()
        assert (await bed.runtime.wait(found.id)).exit_code == 17
    assert [line.text for line in await bed.output(found.id)] == [str(n) for n in range(20)]


async def test_a_supervisor_that_is_killed_takes_its_process_along(bed: Bed) -> None:
    made = await bed.start("sleep 14.1421 & exec sleep 60", limits=Limits(pids=20))
    pid = (await bed.runtime.status(made)).pid
    (shim,) = bed.runtime.pids()
    os.kill(shim, signal.SIGKILL)
    status = await bed.runtime.wait(made)
    assert (status.state, status.signal) == (State.KILLED, signal.SIGKILL)
    assert "supervisor" in status.reason

    async def gone() -> bool:
        await bed.runtime.status(made)
        return not _runs(pid) and not any(_called("14.1421"))

    assert await until(gone)


async def test_a_start_that_was_cut_off_is_made_good(bed: Bed) -> None:
    """Two agents start one container: one supervisor stands."""
    spec = bed.spec("echo once; sleep 1")
    for _ in range(2):
        bed.names.append(await bed.runtime.create(spec))
    other = Process(bed.runtime._state)
    await asyncio.gather(bed.runtime.start(spec.name), other.start(spec.name))
    await bed.runtime.wait(spec.name)
    assert [line.text for line in await bed.output(spec.name)] == ["once"]
    await other.close()


async def test_its_tmp_is_its_own_and_goes_with_it(bed: Bed) -> None:
    mark = f"hostler-{os.getpid()}"
    made = await bed.start(f"echo x > /tmp/{mark}; ls /tmp")
    await bed.runtime.wait(made)
    assert [line.text for line in await bed.output(made)] == [mark]
    assert not Path(f"/tmp/{mark}").exists()
    assert (bed.runtime._state / made / "tmp" / mark).exists()
    await bed.runtime.remove(made)
    assert list(bed.runtime._state.iterdir()) == []


async def test_RN_09_what_is_bound_needs_no_place_on_the_node(bed: Bed, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main").write_text("code\n")
    (tmp_path / "task.sock").write_text("not really one\n")
    binds = (
        Bind(str(tmp_path / "app"), "/no-such-top/app"),
        Bind(str(tmp_path / "task.sock"), "/run/no-such-house/task.sock"),
    )
    script = "cat /no-such-top/app/main /run/no-such-house/task.sock; ls -d /usr/bin /proc/version /run"
    made = await bed.start(script, binds=binds)
    await bed.runtime.wait(made)
    said = [line.text for line in await bed.output(made)]
    assert said == ["code", "not really one", "/proc/version", "/run", "/usr/bin"]
    assert not Path("/no-such-top").exists()
    assert not Path("/run/no-such-house").exists()


async def test_nothing_of_it_is_left_in_control_groups(bed: Bed) -> None:
    made = await bed.start("sleep 60", limits=Limits(memory_bytes=64 << 20))
    fenced = groups.Fenced(made)
    assert fenced.paths()
    await bed.runtime.remove(made)
    assert fenced.paths() == []


async def test_RN_09_devices_and_files_of_the_state_are_not_in_reach(bed: Bed) -> None:
    made = await bed.start(f"ls {bed.runtime._state} || echo denied")
    await bed.runtime.wait(made)
    assert [line.text for line in await bed.output(made) if line.stream == "stdout"] == ["denied"]


WALLED = """
import json, os, sys
from hostler.agent.containers import shim_child
spec = {"groups": [], "working_dir": "/", "environment": {"PATH": "/bin"}, "ids": [1234, 1234, []]}
spec["no_new_privileges"] = True
spec |= json.loads(sys.argv[1])
os.setgroups([4])
null = os.open("/dev/null", os.O_RDWR)
pid = shim_child.start(spec, json.loads(sys.argv[2]), (null, 1, 2), dies=True)
if sys.argv[3:]:
    print(pid, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
STATUS = json.dumps(["/bin/busybox", "cat", "/proc/self/status"])


def walled(changed: dict[str, object], command: str = STATUS, *more: str) -> str:
    need("busybox")
    need_root()
    done = child_of_a_test(WALLED, json.dumps(changed), command, *more)
    assert done.returncode == 0, done.stderr
    said: str = done.stdout
    return said


def test_J1_a_process_has_no_capability_and_can_get_none() -> None:
    for changed in ({}, {"ids": None}):
        facts = dict(line.split(":\t", 1) for line in walled(changed).splitlines() if ":\t" in line)
        sets = [facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
        assert sets == ["0" * 16] * 5
        assert facts["NoNewPrivs"] == "1"


def test_J1_a_process_is_the_user_it_was_given_and_in_no_group_of_the_agent_s() -> None:
    facts = dict(line.split(":\t", 1) for line in walled({}).splitlines() if ":\t" in line)
    assert facts["Uid"].split() == facts["Gid"].split() == ["1234"] * 4
    assert facts["Groups"].strip() == ""


def test_J1_a_process_leaves_no_core() -> None:
    said = walled({}, json.dumps(["/bin/busybox", "cat", "/proc/self/limits"]))
    assert next(line.split()[4:6] for line in said.splitlines() if line.startswith("Max core")) == ["0", "0"]


async def test_a_process_ends_with_its_supervisor() -> None:
    pid = int(walled({}, json.dumps(["/bin/busybox", "sleep", "60"]), "leave"))

    async def gone() -> bool:
        return not _runs(pid)

    assert await until(gone)


MOUNTED = """
import json, sys
from pathlib import Path
from hostler.agent.containers import shim_mounts
place = Path(sys.argv[1])
for name in ("tmp", "root", "in"):
    (place / name).mkdir()
shim_mounts.settle({"binds": [{"source": str(place / "in"), "target": "/srv/in", "read_only": True}]}, str(place))
try:
    Path("/srv/in/x").write_text("x")
    print("written")
except OSError as err:
    print(err.strerror)
Path("/tmp/hostler-own").touch()
"""


def test_J1_what_is_bound_for_reading_is_not_written(tmp_path: Path) -> None:
    need_root()
    done = child_of_a_test(MOUNTED, str(tmp_path))
    assert done.stdout == "Read-only file system\n", done.stderr
    assert (tmp_path / "tmp" / "hostler-own").exists()
    assert not Path("/tmp/hostler-own").exists()
    mounts = Path("/proc/mounts").read_text()
    assert str(tmp_path) not in mounts
    assert "/srv/in" not in mounts


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _called(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if word in path.read_text(errors="replace").split("\0") else []
        except OSError:
            continue
    return found
