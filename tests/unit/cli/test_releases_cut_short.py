"""U3: a repository that is changed by two, or by one who is cut short, is the old or the new one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.pki import release_repo, storage
from support.desk import Desk, error_of
from support.releases import FILES, agent_package


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # half of the time, and no power is cut here
    made = Desk(tmp_path, monkeypatch)
    made.init()
    yield made
    assert not [name for name in made.files() if ".new" in name], "something half-written was left"


def test_two_changes_at_once(desk: Desk) -> None:
    import fcntl

    held = os.open(desk.repo / "metadata", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert "[busy]" in error_of(desk.releases("refresh"))
    finally:
        os.close(held)
    assert desk.releases("refresh").exit_code == 0


class PowerCut(Exception):
    """The machine is gone."""


@pytest.mark.parametrize("at", range(5))
def test_U3_cut_short_it_is_the_old_or_the_new(desk: Desk, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A release that was being added is there or is not; adding it again is all there is to do."""
    assert desk.add("1.0.0").exit_code == 0
    known = desk.taken().trusted
    left = [at]

    def cut(path: Path, data: bytes) -> None:
        if not left[0]:
            raise PowerCut
        left[0] -= 1
        storage.write_public(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(release_repo, "write_public", cut)
        desk.add("1.1.0")
    assert [each.version for each in desk.taken(known).releases] == [*(["1.1.0"] if at >= 4 else []), "1.0.0"]
    assert desk.add("1.1.0").exit_code == 0
    assert [each.version for each in desk.taken(known).releases] == ["1.1.0", "1.0.0"]


def test_made_whole_or_not_at_all(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(desk.repo)

    def cut(path: Path, data: bytes) -> None:
        raise PowerCut

    with monkeypatch.context() as patched:
        patched.setattr(release_repo, "write_public", cut)
        words = ("releases", "init", str(desk.repo), "--trust", str(desk.trust), "--key", str(desk.update))
        assert isinstance(desk.run(*words).exception, PowerCut)
    assert not desk.repo.exists()
    desk.init()
    assert sorted(path.name for path in desk.place.iterdir()) == ["fresh.key", "pki", "repo"]


@pytest.mark.parametrize("at", range(5))
def test_U3_a_rotation_cut_short_is_made_again(desk: Desk, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    assert desk.add("1.0.0").exit_code == 0
    known = desk.taken().trusted
    desk.ok("pki", "rotate", "update", str(desk.pki))
    desk.ok("pki", "rotate", "update", str(desk.pki), "--leave-behind")
    words = ("rotate", "--retire", str(desk.pki / "update/update.old.key"))
    left = [at]

    def cut(path: Path, data: bytes) -> None:
        if not left[0]:
            raise PowerCut
        left[0] -= 1
        storage.write_public(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(release_repo, "write_public", cut)
        desk.releases(*words)
    assert desk.releases(*words).exit_code == 0
    assert [each.version for each in desk.taken(known).releases] == ["1.0.0"]


def test_a_package_that_changes_while_it_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was inspected is what is published, or nothing is."""
    path = desk.package("1.0.0")
    before = desk.files()
    inspect = release_repo.deb.inspect

    def swapped(source: int) -> Any:
        found = inspect(source)
        path.write_bytes(agent_package("1.0.0", FILES | {"lib/x.py": b"evil"}))
        return found

    monkeypatch.setattr(release_repo.deb, "inspect", swapped)
    assert "[digest_mismatch]" in error_of(desk.releases("add", str(path), "--channel", "stable"))
    assert desk.files() == before
