"""PF-10, OD-17: only a tenant's processes are ended. Nothing here can be signalled: /proc is a directory of files,
and the one call that sends is replaced."""

import os
import signal
from pathlib import Path

import pytest

from hostler.agent.host import eviction
from hostler.agent.host.eviction import Eviction, Uids
from hostler.base.errors import HostlerError
from support.tenancy import plant

Sent = list[tuple[str, int]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """(process, signal) of every signal that would have been sent."""
    told: Sent = []

    def send(fd: int, number: int) -> None:
        told.append((Path(f"/proc/self/fd/{fd}").readlink().name, int(number)))

    monkeypatch.setattr(eviction, "send", send)
    return told


def process(root: Path, pid: int, uid: int, *, effective: int | None = None, state: str = "S") -> None:
    uids = "\t".join(map(str, (uid, uid if effective is None else effective, uid, uid)))
    plant(root, {f"/proc/{pid}/status": f"Name:\tp{pid}\nState:\t{state} (x)\nUid:\t{uids}\n"})


def test_OD_17_only_processes_of_the_tenant_are_told_to_end(tmp_path: Path, sent: Sent) -> None:
    for pid, uid in ((1, 0), (50, 33), (60, 20001), (61, 20002), (62, 1000)):
        process(tmp_path, pid, uid)
    process(tmp_path, 63, 0, effective=20001)  # the system's, for a moment in the tenant's name
    process(tmp_path, 64, 20001, effective=0)  # the tenant's, through a setuid program
    process(tmp_path, 65, 20001, state="Z")
    left = Eviction(tmp_path).end(Uids([20001]), 0.1)
    assert {pid for pid, _ in sent} == {"60", "64"}
    assert {number for _, number in sent} == {signal.SIGKILL}
    assert sorted(each.pid for each in left) == [60, 64]


@pytest.mark.parametrize("uid", [0, 1, 33, 999, 65534, 2**31, 2**32 - 1])
def test_OD_17_users_of_the_system_are_refused_before_anything_is_looked_at(
    tmp_path: Path, sent: Sent, uid: int
) -> None:
    process(tmp_path, 60, uid)
    with pytest.raises(HostlerError) as caught:
        Eviction(tmp_path).end(Uids([20001, uid]), 0.1)
    assert caught.value.code == "user_protected"
    assert sent == []


def test_the_agent_s_own_user_is_refused(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 20001)
    with pytest.raises(HostlerError):
        Uids([20001])


def test_ids_inside_a_user_s_name_space_count_and_a_range_over_the_system_does_not(tmp_path: Path, sent: Sent) -> None:
    for pid, uid in ((60, 100_005), (61, 0), (62, 33), (63, 65_534)):
        process(tmp_path, pid, uid)
    uids = Uids([20001], [range(100_000, 165_536), range(70_000), range(5)])
    Eviction(tmp_path).end(uids, 0.1)
    assert {pid for pid, _ in sent} == {"60"}


def test_what_is_no_process_directory_gets_no_signal(tmp_path: Path) -> None:
    """Without any stub: the kernel itself refuses a directory that is no /proc."""
    process(tmp_path, os.getpid(), 20001)
    with pytest.raises(OSError):
        Eviction(tmp_path).end(Uids([20001]), 0.1)


def test_a_host_without_processes_is_no_error(tmp_path: Path, sent: Sent) -> None:
    assert Eviction(tmp_path).end(Uids([20001]), 0.1) == []


def test_OD_17_what_does_not_end_is_named_within_the_time(tmp_path: Path, sent: Sent) -> None:
    process(tmp_path, 60, 20001, state="D")
    left = Eviction(tmp_path).end(Uids([20001]), 0.2)
    assert [str(each) for each in left] == ["'p60' (process 60 of user id 20001, state D)"]
