"""What is known of a run after the agent died: K1, K2, and the power cut of K7."""

import json
import os
from pathlib import Path

import pytest

from hostler.agent.host.execute import RunState
from hostler.agent.host.host import Host
from hostler.agent.host.records import Spool, made_ms
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.base.ids import TASK, new_id
from support.commands import ME, host_in, python, run

RUN = ("tsk_1", 0)


class At(SystemClock):
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


def spool_in(directory: Path, now_ms: int = 1000) -> Spool:
    spool = Spool(directory / "spool", At(now_ms))
    spool.prepare()
    return spool


def after_a_reboot(directory: Path, now_ms: int) -> Spool:
    boot = directory / "spool" / "boot"
    boot.write_text(json.dumps({**json.loads(boot.read_text()), "boot_id": "another"}))
    return spool_in(directory, now_ms)


async def test_a_run_that_never_started_has_no_trace(host: Host) -> None:
    assert (await host.execute.recall(*RUN)).state == RunState.NONE


async def test_K2_a_run_that_ended_is_recalled_with_its_status_until_forgotten(host: Host) -> None:
    await run(host, *python("raise SystemExit(3)"), record=RUN)
    record = await host.execute.recall(*RUN)
    assert (record.state, record.status) == (RunState.EXITED, 3)
    host.execute.forget(*RUN)
    assert (await host.execute.recall(*RUN)).state == RunState.NONE


async def test_a_run_without_an_end_is_recalled_as_started(host: Host, tmp_path: Path) -> None:
    await host.execute.recall(*RUN)
    (tmp_path / "spool" / "tsk_1.0.run").write_text('started {"argv_digest": "x"}\nexi')
    assert (await host.execute.recall(*RUN)).state == RunState.STARTED


async def test_a_run_that_could_not_start_is_recalled_as_refused(host: Host) -> None:
    with pytest.raises(HostlerError):
        await run(host, "/absent", record=RUN)
    record = await host.execute.recall(*RUN)
    assert (record.state, record.error_code) == (RunState.REFUSED, "command_not_found")


async def test_a_run_that_took_too_long_is_recalled_as_ended_by_us(host: Host) -> None:
    with pytest.raises(HostlerError):
        await run(host, "/usr/bin/sleep", "60", seconds=0.3, record=RUN)
    record = await host.execute.recall(*RUN)
    assert (record.state, record.reason) == (RunState.KILLED, "timeout")


async def test_records_are_private_and_say_nothing_of_the_arguments(host: Host, tmp_path: Path) -> None:
    await run(host, "/usr/bin/echo", "canary", env={"NAME": "canary"}, record=RUN, note="d1")
    directory = tmp_path / "spool"
    file = directory / "tsk_1.0.run"
    assert (directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert "canary" not in file.read_text()
    assert "d1" in file.read_text()


async def test_a_record_that_cannot_be_written_keeps_the_command_from_running(host: Host, tmp_path: Path) -> None:
    await host.execute.recall(*RUN)
    (tmp_path / "spool" / "tsk_1.0.run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostlerError):
        await run(host, "/usr/bin/touch", str(tmp_path / "ran"), record=RUN)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "elsewhere").exists()


async def test_a_spool_that_cannot_be_made_is_storage_unhealthy(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    async with host_in(tmp_path) as host:
        with pytest.raises(HostlerError) as refused:
            await run(host, "/usr/bin/true", run_as=ME)
    assert refused.value.code == "storage_unhealthy"


def test_K7_after_a_reboot_a_missing_record_says_nothing_about_older_tasks(tmp_path: Path) -> None:
    spool_in(tmp_path)
    older, newer = new_id(TASK, 5_000), new_id(TASK, 9_000)
    spool = after_a_reboot(tmp_path, now_ms=7_000)
    assert spool.read(older, 0).state == RunState.LOST
    assert spool.read(newer, 0).state == RunState.NONE
    assert spool.read("no stamp", 0).state == RunState.LOST


def test_K7_the_boot_is_remembered_over_restarts_of_the_agent(tmp_path: Path) -> None:
    spool_in(tmp_path)
    after_a_reboot(tmp_path, now_ms=7_000)
    assert spool_in(tmp_path, now_ms=8_000).read(new_id(TASK, 5_000), 0).state == RunState.LOST


def test_an_unreadable_boot_note_counts_as_a_reboot(tmp_path: Path) -> None:
    spool_in(tmp_path)
    (tmp_path / "spool" / "boot").write_bytes(b"")
    assert spool_in(tmp_path, now_ms=7_000).read(new_id(TASK, 5_000), 0).state == RunState.LOST


def test_records_of_last_week_are_swept_at_start(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    old, new = spool.path("tsk_old", 0), spool.path("tsk_new", 0)
    for file in (old, new):
        file.write_text("started {}\n")
    os.utime(old, (1, 1))
    spool.prepare()
    assert (old.exists(), new.exists()) == (False, True)


def test_a_hostile_task_id_stays_inside_the_spool(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    assert spool.path("../../etc/passwd", 0).parent == tmp_path / "spool"


def test_the_time_of_an_id_is_what_went_into_it() -> None:
    assert made_ms(new_id(TASK, 1_763_000_000_123)) == 1_763_000_000_123
