"""The agent dies, or a helper does: nothing it started lives on (K1, K6)."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from hostler.agent.host.execute import RunState
from support.commands import ME, STUBBORN, alive, host_in, until

AGENT = """
import asyncio, pathlib, sys
from hostler.agent.host.execute import Command
from hostler.agent.host.host import Host
from hostler.base.clock import Deadline

async def main(directory, code, user, grace, adopt):
    host = Host(spool=pathlib.Path(directory) / "spool")
    if adopt:
        host.execute.adopt_orphans()
    argv = (sys.executable, "-I", "-S", "-c", code, directory + "/pid")
    command = Command(argv=argv, run_as=user, record=("tsk_1", 0), grace_s=float(grace))
    try:
        await host.execute.run(command, deadline=Deadline.after(60, host.clock))
    except Exception as err:
        print(err.code, flush=True)
    await host.close()

asyncio.run(main(*sys.argv[1:5], len(sys.argv) > 5))
"""


def agent(directory: Path, code: str, *flags: str, grace_s: float = 0.05) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-c", AGENT, str(directory), code, ME, str(grace_s), *flags]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


async def test_K1_killing_the_agent_ends_the_whole_tree_and_the_record_says_so(tmp_path: Path) -> None:
    with agent(tmp_path, STUBBORN + "\ntime.sleep(60)") as process:
        pid = int(await until(tmp_path / "pid"))
        process.send_signal(signal.SIGKILL)
    async with host_in(tmp_path) as host:
        record = await host.execute.recall("tsk_1", 0)  # waits for the old helper
    assert not alive(pid)
    assert (record.state, record.reason) == (RunState.KILLED, "agent_gone")


async def test_K1_a_command_that_ended_before_its_agent_died_is_known_to_have(tmp_path: Path) -> None:
    """The main process is done, a leftover keeps the helper busy when the agent goes."""
    code = STUBBORN + "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.005)\nos._exit(7)"
    with agent(tmp_path, code, grace_s=0.3) as process:
        pid = int(await until(tmp_path / "pid"))
        for _ in range(1000):
            if "exited" in (tmp_path / "spool" / "tsk_1.0.run").read_text():
                break
            await asyncio.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    async with host_in(tmp_path) as host:
        record = await host.execute.recall("tsk_1", 0)
    assert (record.state, record.status) == (RunState.EXITED, 7)
    assert not alive(pid)


async def test_K6_what_a_killed_helper_leaves_falls_to_the_agent_which_ends_it(tmp_path: Path) -> None:
    code = STUBBORN + (
        "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.005)\nos.kill(os.getppid(), signal.SIGKILL)\n"
        "time.sleep(60)"
    )
    with agent(tmp_path, code, "adopt") as process:
        printed = await asyncio.to_thread(process.communicate, timeout=20)
    assert printed[0].strip() == b"interrupted_apply"
    assert not alive(int((tmp_path / "pid").read_text()))
