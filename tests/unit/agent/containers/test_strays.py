"""What a program in a container has left behind is found by its mark, whatever it is about to become."""

import itertools
import secrets
import signal
import subprocess

import pytest

from hostler.agent.containers import strays


async def test_a_process_that_is_just_becoming_another_program_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows no environment of it in that moment."""
    mark, looks, shown = secrets.token_hex(8), itertools.count(), strays._environment
    with subprocess.Popen(["/bin/sleep", "60"], env={strays.VARIABLE: mark}) as left:

        def environment(pid: int) -> list[bytes]:
            return [] if pid == left.pid and next(looks) == 0 else shown(pid)

        monkeypatch.setattr(strays, "_environment", environment)
        try:
            await strays.end(mark)
            assert left.wait(10) == -signal.SIGKILL
        finally:
            left.kill()
