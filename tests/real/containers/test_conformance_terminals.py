"""RN-01: what every container runtime owes of programs and terminals inside a container."""

import asyncio
import time

import pytest

from hostler.agent.containers.runtime import Size, State
from hostler.base.errors import HostlerError
from support.runtimes import Bed, none_called, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]

SIZE = Size(24, 80)


async def test_RN_01_exec_gives_code_and_streams(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    done = await bed.runtime.exec(made, ("/bin/busybox", "sh", "-c", "echo out; echo err >&2; exit 7"), 10)
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


async def test_RN_01_exec_ends_in_time(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    begun = time.monotonic()
    with pytest.raises(HostlerError) as failed:
        await bed.runtime.exec(made, ("/bin/busybox", "sleep", "31.4159"), 1)
    assert failed.value.code == "timeout"
    assert time.monotonic() - begun < 8
    assert await until(lambda: none_called("31.4159"))
    assert (await bed.runtime.status(made)).state is State.RUNNING


async def test_RN_01_a_terminal_is_one_and_is_resized(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    terminal = await bed.runtime.attach(made, ("/bin/busybox", "sh"), tty=SIZE)
    await terminal.resize(33, 111)
    await terminal.write(b"tty; stty size; exit 5\n")
    said = b""
    while data := await terminal.read():
        said += data
    assert b"/dev/" in said
    assert b"33 111" in said
    assert await terminal.wait() == 5
    await terminal.close()


async def test_RN_01_a_program_finds_the_size_of_its_terminal_at_its_first_look(bed: Bed) -> None:
    """Docker Engines of before 23 take no size with the start: there it comes right after it."""
    made = await bed.start("sleep 60")
    look = "until stty size 2>/dev/null | grep .; do sleep 0.02; done" if bed.runtime.name == "docker" else "stty size"
    for _ in range(8):
        terminal = await bed.runtime.attach(made, ("/bin/busybox", "sh", "-c", look), tty=Size(33, 111))
        said = b""
        while data := await terminal.read():
            said += data
        await terminal.close()
        assert said == b"33 111\r\n"


async def test_RN_01_closing_a_terminal_ends_all_below_it(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    terminal = await bed.runtime.attach(made, ("/bin/busybox", "sh"), tty=SIZE)
    await terminal.write(b"(trap '' HUP TERM; setsid sleep 27.1828 &) ; echo rea''dy\n")
    said = b""
    while b"ready" not in said:
        said += await terminal.read()
    await terminal.close()
    assert await until(lambda: none_called("27.1828"))
    assert (await bed.runtime.status(made)).state is State.RUNNING


async def test_RN_01_a_program_without_a_terminal_has_its_streams(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    program = await bed.runtime.attach(made, ("/bin/busybox", "sh", "-c", "read a; echo got $a; exit 4"), tty=None)
    await program.write(b"it\n")
    said = b""
    while data := await program.read():
        said += data
    assert said == b"got it\n"
    assert await program.wait() == 4
    await program.close()


async def test_RN_01_a_container_that_ends_takes_its_terminals_along(bed: Bed) -> None:
    made = await bed.start("sleep 60")
    terminal = await bed.runtime.attach(made, ("/bin/busybox", "sh"), tty=SIZE)
    await bed.runtime.stop(made, 0)
    async with asyncio.timeout(10):
        while await terminal.read():
            pass
        await terminal.wait()
    await terminal.close()
