"""EX-06 as the kernel sees it: one execve of the fixed path, with the argv as built and no shell."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import need
from support.commands import ME

pytestmark = pytest.mark.real

AGENT = """
import asyncio, pathlib, sys
from hostler.agent.host.execute import Command
from hostler.agent.host.host import Host
from hostler.base.clock import Deadline

async def main():
    host = Host(spool=pathlib.Path(sys.argv[1]) / "spool")
    for number in range(3):
        command = Command(
            argv=("/usr/bin/printf", "%s", f"$(id) {number}"), run_as=sys.argv[2], capture_stdout=True,
            record=("tsk_1", number), sha256=sys.argv[3],
        )
        done = await host.execute.run(command, deadline=Deadline.after(60, host.clock))
        assert done.stdout == f"$(id) {number}", done
    await host.close()

asyncio.run(main())
"""
EXECVE = re.compile(r'^([\d.]+) execve\("([^"]+)", (\[.*\]), .*= 0$')


def executed(tmp_path: Path, user: str, sha256: str = "") -> list[tuple[str, str]]:
    """Path and argv of every execve that worked, in order."""
    command = ["strace", "-ff", "-ttt", "-s", "200", "-e", "trace=execve", "-o", str(tmp_path / "trace")]
    command += [sys.executable, "-c", AGENT, str(tmp_path), user, sha256]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for file in tmp_path.glob("trace.*") for line in file.read_text().splitlines()]
    calls = sorted((float(match[1]), match[2], match[3]) for match in map(EXECVE.match, lines) if match)
    return [(path, argv) for _, path, argv in calls]


@pytest.mark.parametrize("user", [ME, ""])
def test_EX_06_each_run_is_one_execve_of_the_fixed_path_and_nothing_else(tmp_path: Path, user: str) -> None:
    need("strace")
    calls = executed(tmp_path, user)
    programs = [path for path, _ in calls]
    assert programs[0] == sys.executable  # the agent
    assert "reaper" in calls[1][1]  # its helper, once
    assert calls[2:] == [("/usr/bin/printf", f'["/usr/bin/printf", "%s", "$(id) {n}"]') for n in range(3)]


def test_J4_a_pinned_binary_is_started_by_the_descriptor_that_was_hashed(tmp_path: Path) -> None:
    need("strace")
    sha256 = hashlib.sha256(Path("/usr/bin/printf").read_bytes()).hexdigest()
    calls = executed(tmp_path, "", sha256)
    assert [path.rpartition("/")[0] for path, _ in calls[2:]] == ["/proc/self/fd"] * 3
