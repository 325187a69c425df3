"""SE-04: what every command is held to, and what its own declaration adds. Real processes, real kernel."""

import asyncio
import ctypes
import os
import shutil
import signal
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from hostler.agent.host import cgroups, seccomp
from hostler.agent.host.confine import Walls
from hostler.agent.host.host import Host
from hostler.base.errors import HostlerError
from hostler.catalog.effects import SyscallGroup
from support.commands import STUBBORN, alive, host_in, python, run, until

HEADERS = Path("/usr/include")
NOTHING = Walls((), False, frozenset())


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with host_in(tmp_path) as made:
        yield made


async def gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while alive(pid):
            await asyncio.sleep(0.01)


def writing(*paths: Path) -> Walls:
    return Walls(tuple(map(str, paths)), False, frozenset())


def call(name: str, *arguments: int) -> str:
    """Python text that makes a bare system call and prints its errno."""
    number = seccomp.machine().calls[name]
    return (
        "import ctypes; l = ctypes.CDLL(None, use_errno=True);"
        f"r = l.syscall({number}, {', '.join(map(str, arguments)) or 0}); print(ctypes.get_errno() if r < 0 else 0)"
    )


async def test_SE_04_a_command_gains_no_privilege_whatever_it_executes(host: Host) -> None:
    status = (await run(host, "/usr/bin/cat", "/proc/self/status")).stdout
    words = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert words["NoNewPrivs"] == "1"
    assert words["Seccomp"] == "2"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
async def test_SE_04_another_user_is_that_user_alone_and_for_good(host: Host) -> None:
    status = (await run(host, "/usr/bin/cat", "/proc/self/status", run_as="daemon")).stdout
    words = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert words["Uid"].split() == ["1"] * 4
    assert words["Gid"].split() == ["1"] * 4
    assert words["Groups"].split() == ["1"]
    assert {int(words[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
    again = await run(host, "/usr/bin/id", "-u")
    assert again.stdout.strip() == str(os.geteuid()), "the helper is what it was"


@pytest.mark.parametrize("name", ["mount", "unshare", "ptrace", "bpf", "init_module", "keyctl", "reboot", "chroot",
                                  "setns", "io_uring_setup", "settimeofday", "personality", "swapon"])  # fmt: skip
async def test_SE_04_calls_that_no_command_needs_are_refused(host: Host, name: str) -> None:
    done = await run(host, *python(call(name, 0, 0, 0, 0)))
    assert done.stdout.strip() == "1", "EPERM, before the kernel looks at the arguments"


async def test_SE_04_no_namespace_is_made_by_clone_or_clone3(host: Host) -> None:
    new_user = 0x10000000 | signal.SIGCHLD
    assert (await run(host, *python(call("clone", new_user, 0, 0, 0, 0)))).stdout.strip() == "1"
    assert (await run(host, *python(call("clone3", 0, 0)))).stdout.strip() == "38", "so that libc falls back to clone"
    forks = "import os; p = os.fork(); p or os._exit(7); print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))"
    assert (await run(host, *python(forks))).stdout.strip() == "7"
    threads = "import threading; t = threading.Thread(target=print, args=('hello',)); t.start(); t.join()"
    assert (await run(host, *python(threads))).stdout.strip() == "hello"


async def test_a_group_of_calls_is_open_to_a_profile_that_names_it_and_to_no_other(host: Host) -> None:
    ask = python(call("personality", 0xFFFFFFFF))
    allowed = await run(host, *ask, walls=Walls(None, True, frozenset({"system"})))
    refused = await run(host, *ask)
    assert (allowed.stdout.strip(), refused.stdout.strip()) == ("0", "1")


async def test_SE_04_a_write_outside_what_was_declared_is_refused_and_named(host: Host, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "there").write_text("kept")
    code = """
import os, sys
def tried(work):
    try: work()
    except OSError as err: print(err.errno)
    else: print(0)
i, o = sys.argv[1:]
tried(lambda: open(i + "/new", "w").write("x"))
tried(lambda: os.mkdir(i + "/dir"))
tried(lambda: os.rename(i + "/new", i + "/dir/moved"))
tried(lambda: open("/dev/null", "w").write("x"))
tried(lambda: open("/dev/stdout", "w").write(""))
tried(lambda: open(o + "/there").read())
tried(lambda: open(o + "/new", "w"))
tried(lambda: open(o + "/there", "a"))
tried(lambda: os.unlink(o + "/there"))
tried(lambda: os.truncate(o + "/there", 0))
tried(lambda: os.symlink("x", o + "/link"))
tried(lambda: os.chmod(o + "/there", 0o777))
tried(lambda: os.rename(i + "/dir/moved", o + "/moved"))
os.chdir(o)
tried(lambda: os.mkdir("relative"))
"""
    done = await run(host, *python(code, str(inside), str(outside)), walls=writing(inside))
    assert done.stdout.split() == ["0"] * 6 + ["13"] * 8
    assert done.status == 0, "the command took the refusals and went on"
    names = {Path(path).name for path in done.undeclared}
    assert names == {"new", "there", "link", "moved", "relative"}
    assert all(path.startswith(str(outside)) for path in done.undeclared)
    assert (outside / "there").read_text() == "kept"
    assert [path.name for path in outside.iterdir()] == ["there"]


async def test_walls_are_kept_for_the_next_command_and_put_up_anew_when_a_folder_is_another_one(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    code = "import sys\ntry: open(sys.argv[1] + '/x', 'w')\nexcept OSError as err: print(err.errno)\nelse: print(0)"
    async with host_in(tmp_path, parallel=1) as host:

        async def tried(walls: Walls) -> tuple[str, int]:
            done = await run(host, *python(code, str(inside)), walls=walls)
            return done.stdout.strip(), len(done.undeclared)

        assert await tried(writing(inside)) == ("0", 0)
        assert await tried(NOTHING) == ("13", 1)
        assert await tried(NOTHING) == ("13", 1), "what was noted is told once"
        shutil.rmtree(inside)
        inside.mkdir()
        assert await tried(writing(inside)) == ("0", 0)


async def test_J1_a_link_out_of_a_declared_folder_leads_nowhere(host: Host, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "made")
    code = """
import sys
for name in ("/link/a", "/file"):
    try: open(sys.argv[1] + name, "w")
    except PermissionError: print("refused")
"""
    done = await run(host, *python(code, str(inside)), walls=writing(inside))
    assert done.stdout.split() == ["refused", "refused"]
    assert {Path(path).name for path in done.undeclared} == {"a", "made"}
    assert list(outside.iterdir()) == []


async def test_J1_swapping_the_path_under_the_watcher_gets_past_it_and_not_past_landlock(
    host: Host, tmp_path: Path
) -> None:
    """Two threads: one changes the text of the path while the other makes the call."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    code = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
good, bad = (name.encode() + b"/x" for name in sys.argv[1:])
size = max(len(good), len(bad)) + 1
text = ctypes.create_string_buffer(size)
ends, tries = time.monotonic() + 1.5, 0
def swap():
    while goes_on():
        text.value = good
        text.value = bad
def goes_on():
    return tries <= 100 or time.monotonic() < ends
threading.Thread(target=swap).start()
while goes_on():
    libc.open(text, 0o101, 0o600)
    tries += 1
print(tries)
"""
    done = await run(host, *python(code, str(inside), str(outside)), walls=writing(inside))
    assert int(done.stdout) > 100
    assert list(outside.iterdir()) == []


async def test_SE_04_without_the_network_there_are_only_sockets_of_this_machine(host: Host) -> None:
    code = """
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_UNIX):
    try: socket.socket(family, socket.SOCK_STREAM if family != socket.AF_NETLINK else socket.SOCK_RAW).close(); print(0)
    except OSError as err: print(err.errno)
"""
    assert (await run(host, *python(code), walls=NOTHING)).stdout.split() == ["97", "97", "97", "97", "0"]
    open_ = await run(host, *python(code), walls=Walls((), True, frozenset()))
    assert open_.stdout.split()[:2] == ["0", "0"]


async def test_a_command_that_writes_without_end_is_still_ended_in_time(host: Host, tmp_path: Path) -> None:
    """The watcher is asked all the time: it must not keep the deadline from being seen."""
    code = "import sys\nwhile True:\n  open(sys.argv[1] + '/x', 'w').close()"
    with pytest.raises(HostlerError) as caught:
        await run(host, *python(code, str(tmp_path)), walls=writing(tmp_path), seconds=0.5)
    assert caught.value.code == "timeout"


async def test_K6_what_the_watcher_waits_for_dies_with_the_command(host: Host, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    done = await run(host, *python(STUBBORN, str(marker)), walls=writing(tmp_path), grace_s=0.05)
    assert done.leftovers >= 0
    if marker.exists():
        await gone(int(marker.read_text()))


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's to make here")
async def test_K6_a_killed_helper_takes_its_whole_tree_with_it_by_its_control_group(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    async with host_in(tmp_path) as host:
        running = asyncio.create_task(run(host, *python(STUBBORN + "\nimport time; time.sleep(60)", str(marker))))
        pid = int(await until(marker))
        (helper,) = host.execute._pool._all
        assert helper.group is not None
        assert str(pid) in (helper.group.path / "cgroup.procs").read_text().split()
        os.kill(helper.pid, signal.SIGKILL)
        await gone(pid)
        with pytest.raises(HostlerError):
            await running


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's to make here")
async def test_K6_groups_of_an_earlier_life_are_ended_at_the_start(tmp_path: Path) -> None:
    sleeping = await asyncio.create_subprocess_exec("/usr/bin/sleep", "60")
    stale = cgroups.Groups(str(tmp_path)).make(sleeping.pid)
    assert stale is not None
    cgroups.Groups(str(tmp_path / "another agent"))
    assert sleeping.returncode is None
    after = cgroups.Groups(str(tmp_path))
    assert sleeping.returncode is None, "its helper may still be ending it, and writing down how"
    after.end_stale()
    assert await sleeping.wait() == -signal.SIGKILL
    after.clear()
    assert not stale.path.exists()


async def test_A8_walls_that_cannot_be_built_leave_nothing_started(host: Host, monkeypatch) -> None:
    """Fails closed: an unknown machine has no filter, so it has no commands."""
    helper_of_another = dict(seccomp.MACHINES)
    monkeypatch.setattr(seccomp, "MACHINES", {})
    from hostler.agent.host import confine

    started: list[int] = []
    with pytest.raises(confine.Unconfined):
        confine.Confined(None, NOTHING).start(lambda: started.append(1) or 1)
    assert started == []
    assert helper_of_another


# -- the filter itself, without a kernel ---------------------------------------------------------


def judge(code: bytes, number: int, *arguments: int, audit: int = 0) -> int:
    """What classic BPF says, step by step, to one system call."""
    data = struct.pack("=IIQ6Q", number, audit or seccomp.machine().audit, 0, *arguments, *[0] * (6 - len(arguments)))
    value, at, program = 0, 0, [struct.unpack_from("=HBBI", code, place) for place in range(0, len(code), 8)]
    while True:
        kind, yes, no, constant = program[at]
        at += 1
        if kind == 0x20:
            value = struct.unpack_from("=I", data, constant)[0]
        elif kind == 0x06:
            return int(constant)
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[kind]
            at += yes if holds else no


@pytest.mark.parametrize("name", list(seccomp.MACHINES))
def test_every_rule_is_reached_and_nothing_else_is_refused(name: str) -> None:
    kind = seccomp.MACHINES[name]
    code = seccomp.baseline(kind, frozenset())
    denied = {call for calls in seccomp.GROUPS.values() for call in calls} | set(seccomp.NEVER)
    for call_, number in kind.calls.items():
        verdict = judge(code, number, audit=kind.audit)
        if call_ in denied:
            assert verdict == seccomp.ERRNO | 1, call_
        elif call_ == "clone3":
            assert verdict == seccomp.ERRNO | 38
        else:
            assert verdict == seccomp.ALLOW, call_
    assert judge(code, kind.calls["clone"], 0x20000000, audit=kind.audit) == seccomp.ERRNO | 1
    assert judge(code, 5000, audit=kind.audit) == seccomp.ALLOW
    assert judge(code, 0, audit=0x40000003) == seccomp.KILL, "the calls of another machine mean something else"
    assert judge(code, 0x40000000 | 1, audit=kind.audit) == seccomp.ERRNO | 1, "x32"


def test_only_opening_to_write_is_shown_to_the_watcher() -> None:
    kind = seccomp.MACHINES["x86_64"]
    code = seccomp.declared(kind, True, True)
    openat = kind.calls["openat"]
    assert judge(code, openat, 0, 0, os.O_RDONLY | os.O_CLOEXEC, audit=kind.audit) == seccomp.ALLOW
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT, os.O_RDONLY | os.O_TRUNC):
        assert judge(code, openat, 0, 0, flags, audit=kind.audit) == seccomp.NOTIFY
    assert judge(code, kind.calls["unlink"], audit=kind.audit) == seccomp.NOTIFY
    assert judge(code, kind.calls["socket"], 2, audit=kind.audit) == seccomp.ALLOW


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "header"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_the_numbers_are_the_kernels_own(name: str, header: str) -> None:
    path = HEADERS / header
    if not path.exists():
        pytest.skip("no kernel headers here")
    words = [line.split() for line in path.read_text().splitlines() if line.startswith("#define __NR")]
    known = {word[1].removeprefix("__NR3264_").removeprefix("__NR_"): word[2] for word in words if len(word) == 3}
    ours = seccomp.MACHINES[name].calls
    wrong = {call_: (number, known[call_]) for call_, number in ours.items() if call_ in known}
    assert {call_: pair for call_, pair in wrong.items() if pair[1].isdigit() and int(pair[1]) != pair[0]} == {}
    assert len(wrong) > 50


def test_the_groups_that_a_profile_may_name_are_those_there_are() -> None:
    assert set(get_args(SyscallGroup)) == set(seccomp.GROUPS)


def test_the_watcher_s_records_are_as_long_as_the_kernel_s() -> None:
    from hostler.agent.host import watcher

    assert (watcher._NOTIFICATION.size, watcher._RESPONSE.size) == (80, 24)
    assert ctypes.sizeof(ctypes.c_void_p) == 8
