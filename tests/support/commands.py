"""Real commands for tests: small Python programs and a Host of their own."""

import asyncio
import os
import pwd
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hostler.agent.host.execute import Command, Finished
from hostler.agent.host.host import Host
from hostler.base.clock import Deadline

ME = pwd.getpwuid(os.geteuid()).pw_name

# Detaches twice, leaves the session, ignores SIGTERM, names itself in the file given, and waits.
STUBBORN = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(60)
    os._exit(0)
"""


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code, *args)


@asynccontextmanager
async def host_in(directory: Path, **fields: Any) -> AsyncIterator[Host]:
    host = Host(spool=directory / "spool", **fields)
    try:
        yield host
    finally:
        await host.close()


async def run(
    host: Host,
    *argv: str,
    seconds: float = 30,
    cancelled: asyncio.Event | None = None,
    lines: list[tuple[str, str]] | None = None,
    **fields: Any,
) -> Finished:
    kept = {"run_as": ME, "grace_s": 0.05, "capture_stdout": True, "capture_stderr": True, **fields}
    return await host.execute.run(
        Command(argv=argv, **kept),
        deadline=Deadline.after(seconds, host.clock),
        cancelled=cancelled or asyncio.Event(),
        on_line=None if lines is None else lambda stream, line: lines.append((stream, line)),
    )


async def until(path: Path, seconds: float = 10) -> str:
    """The content of a file that another process is about to write."""
    for _ in range(int(seconds / 0.01)):
        if path.exists() and (text := path.read_text()):
            return text
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path.name} never appeared")


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
