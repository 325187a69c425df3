"""PF-10: account files are changed line by line, under their lock, and never for a user of the system."""

import fcntl
import os
from pathlib import Path

import pytest

from hostler.agent.host import accounts
from hostler.agent.host.accounts import Account, Accounts
from hostler.base.errors import HostlerError
from support.tenancy import GROUP, PASSWD, SHADOW, machine_root, plant

TENANT = Account("tenant", 20_000, 20_000, "/home/tenant", "/bin/bash")


def text(root: Path, name: str) -> str:
    return (root / "etc" / name).read_text()


def test_a_user_comes_and_goes_and_the_files_are_byte_for_byte_as_before(tmp_path: Path) -> None:
    door = Accounts(machine_root(tmp_path))
    assert door.free_uid() == 20_000
    door.add(TENANT)
    door.add(TENANT)
    assert text(tmp_path, "passwd") == f"{PASSWD}tenant:x:20000:20000::/home/tenant:/bin/bash\n"
    assert text(tmp_path, "shadow") == f"{SHADOW}tenant:*:19000:0:99999:7:::\n"
    assert door.free_uid() == 20_001
    assert door.mine("tenant") == TENANT
    door.remove("tenant")
    assert (text(tmp_path, "passwd"), text(tmp_path, "shadow"), text(tmp_path, "group")) == (PASSWD, SHADOW, GROUP)
    assert f"{(tmp_path / 'etc/shadow').stat().st_mode:o}".endswith("640")


def test_OD_17_a_fence_locks_expires_and_takes_the_shell(tmp_path: Path) -> None:
    door = Accounts(machine_root(tmp_path))
    door.add(TENANT)
    assert not door.fenced("tenant")
    door.fence("tenant")
    door.fence("tenant")
    assert "tenant:!*:19000:0:99999:7::1:\n" in text(tmp_path, "shadow")
    assert "tenant:x:20000:20000::/home/tenant:/usr/sbin/nologin\n" in text(tmp_path, "passwd")
    assert door.fenced("tenant")


@pytest.mark.parametrize("name", ["root", "daemon"])
def test_a_user_of_the_system_is_neither_fenced_nor_removed(tmp_path: Path, name: str) -> None:
    door = Accounts(machine_root(tmp_path))
    for work in (door.fence, door.remove, door.mine):
        with pytest.raises(HostlerError) as caught:
            work(name)
        assert caught.value.code == "user_protected"
    assert (text(tmp_path, "passwd"), text(tmp_path, "shadow")) == (PASSWD, SHADOW)


def test_no_user_of_the_system_is_made(tmp_path: Path) -> None:
    door = Accounts(machine_root(tmp_path))
    for account in (TENANT._replace(uid=0), TENANT._replace(uid=999), TENANT._replace(gid=0)):
        with pytest.raises(HostlerError):
            door.add(account)
    assert text(tmp_path, "passwd") == PASSWD


def test_memberships_and_subordinate_ids_go_with_the_user(tmp_path: Path) -> None:
    root = plant(machine_root(tmp_path), {"/etc/subuid": "tenant:100000:65536\nother:165536:65536\n"})
    door = Accounts(root)
    door.add(TENANT)
    group = (root / "etc/group").read_text().replace("video:x:44:", "video:x:44:other,tenant,more")
    (root / "etc/group").write_text(group)
    assert door.subordinate("tenant") == (range(100_000, 165_536),)
    door.remove("tenant")
    assert "video:x:44:other,more\n" in text(root, "group")
    assert text(root, "subuid") == "other:165536:65536\n"


def test_bytes_that_are_no_text_are_carried_over(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    odd = PASSWD.encode() + b"odd:x:1500:1500:\xff\xfe:/home/odd:/bin/sh\n"
    (root / "etc/passwd").write_bytes(odd)
    door = Accounts(root)
    door.add(TENANT)
    door.remove("tenant")
    assert (root / "etc/passwd").read_bytes() == odd


def test_a_lock_that_somebody_keeps_is_an_error_and_no_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = machine_root(tmp_path)
    monkeypatch.setattr(accounts, "LOCK_PATIENCE_S", 0.1)
    taken = os.open(root / "etc/.pwd.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    child = os.fork()
    if not child:  # locks of one process do not meet each other
        fcntl.lockf(taken, fcntl.LOCK_EX)
        os.write(taken, b"x")
        os.read(os.open(root / "etc/hostname", os.O_RDONLY), 1)
        import time

        time.sleep(30)
        os._exit(0)
    try:
        while not (root / "etc/.pwd.lock").stat().st_size:
            pass
        with pytest.raises(HostlerError) as caught:
            Accounts(root).add(TENANT)
        assert caught.value.code == "file_error"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(taken)
    assert text(root, "passwd") == PASSWD


def test_an_account_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    root = machine_root(tmp_path / "root")
    victim = tmp_path / "victim"
    victim.write_text(PASSWD)
    (root / "etc/passwd").unlink()
    (root / "etc/passwd").symlink_to(victim)
    with pytest.raises(HostlerError):
        Accounts(root).add(TENANT)
    assert victim.read_text() == PASSWD
