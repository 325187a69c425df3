"""Commands run exactly as given, and end whole: EX-05 to EX-08, J3, J4, K6, OP-17."""

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

import pytest

from hostler.agent.host import execute, helpers
from hostler.agent.host.execute import Command, environment
from hostler.agent.host.host import Host
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError
from support.commands import ME, STUBBORN, alive, host_in, python, run, until


async def test_a_command_returns_its_exit_status(host: Host) -> None:
    assert (await run(host, "/usr/bin/true")).status == 0
    assert (await run(host, "/usr/bin/false")).status == 1
    assert (await run(host, *python("raise SystemExit(200)"))).status == 200


async def test_EX_05_shell_text_in_an_argument_arrives_as_it_was_given(host: Host) -> None:
    """J3: nobody on the way reads it."""
    hostile = ["$(id)", "`id`", "; rm -rf /", "a\nb", "*", "-rf", "'\"\\", "ünïcode \u202e", ""]
    done = await run(host, *python("import sys; print(ascii(sys.argv[1:]))", *hostile))
    assert done.stdout.strip() == ascii(hostile)


async def test_EX_07_the_environment_holds_only_what_was_given(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """J4: LD_PRELOAD and PATH of the agent do not reach the command."""
    for name in ("LD_PRELOAD", "PYTHONPATH", "NVIDIA_VISIBLE_DEVICES", "ALLOWED"):
        monkeypatch.setenv(name, "x")
    done = await run(host, "/usr/bin/env", env=environment(["ALLOWED", "ABSENT"], {"FIXED": "1"}))
    assert sorted(done.stdout.split()) == ["ALLOWED=x", "FIXED=1"]


async def test_EX_07_only_three_descriptors_are_open_and_stdin_is_empty(host: Host, tmp_path: Path) -> None:
    leaked = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    code = "import os, sys; print(sorted(os.listdir('/proc/self/fd')), repr(sys.stdin.read()))"
    try:
        done = await run(host, *python(code), seconds=10)
    finally:
        os.close(leaked)
    assert done.stdout.strip() == "['0', '1', '2', '3'] ''"  # 3 is the listing itself


async def test_a_command_starts_in_its_directory_with_a_private_umask_and_no_ignored_signals(
    host: Host, tmp_path: Path
) -> None:
    code = "import os; print(os.getcwd(), oct(os.umask(0)), os.getsid(0) == os.getpid())"
    done = await run(host, *python(code), cwd=str(tmp_path))
    assert done.stdout.split() == [str(tmp_path), "0o77", "True"]
    ignored = await run(host, "/usr/bin/grep", "SigIgn", "/proc/self/status")
    assert int(ignored.stdout.split()[1], 16) & 0x7FFF_FFFF == 0  # above that, the C library keeps two


async def test_output_comes_line_by_line_with_the_last_line_and_bad_bytes_included(host: Host) -> None:
    lines: list[tuple[str, str]] = []
    code = "import os; os.write(1, b'one\\n\\xff\\xfe\\nt\\xc3\\xa4il'); os.write(2, b'err\\n'); os.write(1, b'!')"
    done = await run(host, *python(code), lines=lines)
    assert [text for stream, text in lines if stream == "stdout"] == ["one", "\ufffd\ufffd", "täil!"]
    assert ("stderr", "err") in lines
    assert done.stderr == "err\n"


async def test_a_character_split_over_two_writes_stays_whole(host: Host) -> None:
    code = "import os, time; os.write(1, b'\\xe2\\x82'); time.sleep(0.03); os.write(1, b'\\xac\\n')"
    assert (await run(host, *python(code))).stdout == "€\n"


async def test_EX_08_output_beyond_its_limit_is_read_and_dropped_with_a_mark(host: Host) -> None:
    lines: list[tuple[str, str]] = []
    done = await run(host, *python("print('x' * 3_000_000)"), max_output_bytes=1000, lines=lines)
    assert done.status == 0
    assert lines == [("stdout", "x" * 1000), ("stdout", "[output cut after 1000 bytes]")]


async def test_a_very_long_line_is_handed_on_in_pieces(host: Host) -> None:
    lines: list[tuple[str, str]] = []
    await run(host, *python("print('x' * 20_000)"), lines=lines)
    assert [len(text) for _, text in lines] == [8192, 8192, 3616]


async def test_EX_08_without_capture_no_byte_is_kept(host: Host) -> None:
    lines: list[tuple[str, str]] = []
    done = await run(host, "/usr/bin/echo", "secret", capture_stdout=False, capture_stderr=False, lines=lines)
    assert (done.stdout, lines) == ("", [])


async def test_a_command_of_a_step_that_may_take_a_year_runs(host: Host) -> None:
    """RN-06: `container.run` has such a deadline; poll(2) takes no such number."""
    assert (await run(host, "/usr/bin/true", seconds=31_536_000)).status == 0


@pytest.mark.parametrize("end", ["timeout", "canceled"])
async def test_K6_a_tree_that_detaches_and_ignores_sigterm_is_gone_afterwards(
    host: Host, tmp_path: Path, end: str
) -> None:
    """EX-08, OP-17: double fork, own session, SIGTERM ignored."""
    note, cancelled = tmp_path / "pid", asyncio.Event()
    code = STUBBORN + "\ntime.sleep(60)"

    async def cancel() -> None:
        await until(note)
        cancelled.set()

    async with asyncio.TaskGroup() as group:
        if end == "canceled":
            group.create_task(cancel())
        seconds = 30 if end == "canceled" else 3  # in which the tree has to grow
        with pytest.raises(HostlerError) as ended:
            await run(host, *python(code, str(note)), seconds=seconds, cancelled=cancelled)
    assert ended.value.code == end
    assert not alive(int(note.read_text()))


async def test_K6_what_outlives_its_command_is_ended_and_counted(host: Host, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    waits = STUBBORN + f"\nwhile not os.path.exists({str(note)!r}): time.sleep(0.005)"
    done = await run(host, *python(waits, str(note)))
    assert not alive(int(note.read_text()))
    assert (done.status, done.leftovers) == (0, 1)


async def test_K6_every_generation_of_a_deep_tree_ends(host: Host, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for n in range(6):\n"
        "    os.setsid() if n else None\n"
        "    open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "    if os.fork(): break\n"
        "else: open(f'{sys.argv[1]}/last', 'w').write('x')\n"
        "time.sleep(60)\n"
    )
    cancelled = asyncio.Event()

    async def cancel() -> None:
        await until(tmp_path / "tree" / "last")
        cancelled.set()

    (tmp_path / "tree").mkdir()
    async with asyncio.TaskGroup() as group:
        group.create_task(cancel())
        with pytest.raises(HostlerError):
            await run(host, *python(code, str(tmp_path / "tree")), cancelled=cancelled)
    pids = [int(entry.name) for entry in (tmp_path / "tree").iterdir() if entry.name.isdigit()]
    assert len(pids) == 6
    assert not any(alive(pid) for pid in pids)


async def test_a_polite_command_may_clean_up_before_it_ends(host: Host, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "def bye(*_): time.sleep(0.3); open(sys.argv[1], 'w').write('clean'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye); print('ready', flush=True); time.sleep(60)"
    )
    cancelled = asyncio.Event()
    argv = python(code, str(tmp_path / "note"))
    with pytest.raises(HostlerError, match="cancelled"):
        await host.execute.run(
            Command(argv=argv, run_as=ME, capture_stdout=True, grace_s=5),
            deadline=Deadline.after(30, host.clock),
            cancelled=cancelled,
            on_line=lambda _stream, _line: cancelled.set(),
        )
    assert (tmp_path / "note").read_text() == "clean"


async def test_a_command_cancelled_before_it_starts_never_runs(host: Host, tmp_path: Path) -> None:
    cancelled = asyncio.Event()
    cancelled.set()
    with pytest.raises(HostlerError) as refused:
        await run(host, "/usr/bin/touch", str(tmp_path / "x"), cancelled=cancelled)
    assert refused.value.code == "canceled"
    assert not (tmp_path / "x").exists()


async def test_a_missing_or_forbidden_executable_is_command_not_found(host: Host, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    for path in (str(tmp_path / "absent"), str(plain), str(tmp_path), "true"):
        with pytest.raises(HostlerError) as refused:
            await run(host, path)
        assert refused.value.code == "command_not_found", path


async def test_a_missing_working_directory_is_named(host: Host, tmp_path: Path) -> None:
    with pytest.raises(HostlerError, match="absent") as refused:
        await run(host, "/usr/bin/true", cwd=str(tmp_path / "absent"))
    assert refused.value.code == "file_error"


async def test_an_end_by_signal_is_told_apart_from_a_status(host: Host) -> None:
    done = await run(host, *python("import os; os.kill(os.getpid(), 9)"))
    assert (done.signal, done.status) == (9, -1)


async def test_arguments_that_no_message_holds_are_refused(host: Host) -> None:
    with pytest.raises(HostlerError) as refused:
        await run(host, "/usr/bin/true", "x" * 1_000_000)
    assert refused.value.code == "too_large"
    assert (await run(host, "/usr/bin/true")).status == 0


async def test_J3_a_nul_never_reaches_a_helper(host: Host) -> None:
    for argv, env in (
        (("/usr/bin/true", "a\0b"), {}),
        (("/usr/bin/true",), {"A": "\0"}),
        (("/usr/bin/true",), {"A=B": ""}),
    ):
        with pytest.raises(HostlerError) as refused:
            await run(host, *argv, env=env)
        assert refused.value.code == "invalid_request"


async def test_J4_a_pinned_executable_runs_while_its_digest_fits(host: Host, tmp_path: Path) -> None:
    tool = Path(shutil.copy("/usr/bin/echo", tmp_path / "tool"))
    sha256 = hashlib.sha256(tool.read_bytes()).hexdigest()
    assert (await run(host, str(tool), "hi", sha256=sha256)).stdout == "hi\n"
    shutil.copy("/usr/bin/printf", tool)
    with pytest.raises(HostlerError) as refused:
        await run(host, str(tool), "hi", sha256=sha256)
    assert refused.value.code == "command_changed"


async def test_J4_a_script_cannot_be_pinned(host: Host, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env true\n")
    script.chmod(0o755)
    with pytest.raises(HostlerError, match="script"):
        await run(host, str(script), sha256=hashlib.sha256(script.read_bytes()).hexdigest())


async def test_a_killed_helper_leaves_the_run_unknown_and_the_door_usable(host: Host, tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    with pytest.raises(HostlerError) as refused:
        await run(host, *python(code))
    assert refused.value.code == "interrupted_apply"
    assert (await run(host, "/usr/bin/true")).status == 0


async def test_a_helper_that_was_stopped_is_given_up_and_replaced(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """K5: a deadline holds although the helper that keeps it does not."""
    monkeypatch.setattr(execute, "KILL_LIMIT_S", 0.05)
    monkeypatch.setattr(execute, "_ANSWER_MARGIN_S", 0.05)
    code = "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)"
    with pytest.raises(HostlerError) as refused:
        await run(host, *python(code), seconds=3)  # in which the program has to begin
    assert refused.value.code == "interrupted_apply"
    assert (await run(host, "/usr/bin/true")).status == 0


async def test_no_more_commands_run_at_once_than_allowed(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w').close(); time.sleep(0.02)\n"
        "print(len(os.listdir(sys.argv[1]))); os.unlink(f'{sys.argv[1]}/{os.getpid()}')"
    )
    (tmp_path / "now").mkdir()
    async with host_in(tmp_path, parallel=2) as host, asyncio.TaskGroup() as group:
        runs = [group.create_task(run(host, *python(code, str(tmp_path / "now")))) for _ in range(6)]
    assert {int(r.result().stdout) for r in runs} <= {1, 2}


async def test_idle_helpers_go_away(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "IDLE_S", 0.03)
    parent = await run(host, *python("import os; print(os.getppid())"))
    pid = int(parent.stdout)
    for _ in range(300):
        if not alive(pid):
            break
        await asyncio.sleep(0.01)
    assert not alive(pid)
    assert (await run(host, "/usr/bin/true")).status == 0


async def test_a_helper_is_used_again(host: Host) -> None:
    parents = {(await run(host, *python("import os; print(os.getppid())"))).stdout for _ in range(3)}
    assert len(parents) == 1


async def test_a_helper_outlives_the_signals_of_a_service_stop(host: Host) -> None:
    """The socket's end is what ends it: otherwise the tree would lose its reaper."""
    code = "import os, signal; [os.kill(os.getppid(), s) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]"
    assert (await run(host, *python(code))).status == 0


async def test_OP_17_a_run_that_is_abandoned_takes_its_tree_along(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    async with host_in(tmp_path) as host, asyncio.TaskGroup() as group:
        task = group.create_task(run(host, *python(STUBBORN + "\ntime.sleep(60)", str(note))))
        pid = int(await until(note))
        task.cancel()
    assert not alive(pid)
