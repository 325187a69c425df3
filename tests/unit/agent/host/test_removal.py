"""R2, RN-11: what a tenant leaves is removed however it was made, and nothing beside it."""

import os
from pathlib import Path

import pytest

from hostler.agent.host.removal import remove
from hostler.base.errors import HostlerError
from support.nested import nested


def test_R2_a_tree_deeper_than_files_can_be_open_or_calls_nested_goes(tmp_path: Path) -> None:
    with nested(tmp_path / "tree", 2000):
        (tmp_path / "tree/beside/empty").mkdir(parents=True)
        remove(tmp_path / "tree")
        assert list(tmp_path.iterdir()) == []


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "tree/below").mkdir(parents=True)
    (tmp_path / "tree/below/out").symlink_to(kept)
    (tmp_path / "alone").symlink_to(kept)
    for name in ("tree", "alone", "tree", "none/at/all"):
        remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").exists()


@pytest.mark.parametrize("target", ["file", "nowhere", "there"])
def test_J5_what_somebody_planted_above_it_ends_no_agent(tmp_path: Path, target: str) -> None:
    """Such as in /dev/shm, where everybody may be first. A directory that root has moved elsewhere is as good."""
    (tmp_path / "file").touch()
    (tmp_path / "there/tree/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / target)
    remove(tmp_path / "link/tree")
    assert (tmp_path / "there/tree").exists() == (target != "there")


def test_J5_a_link_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(HostlerError) as refused:
        remove(tmp_path / "loop/tree")
    assert refused.value.code == "file_error"


def test_another_file_system_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree/mounted").mkdir(parents=True)
    (tmp_path / "tree/mounted/file").touch()
    other, true = (tmp_path / "tree/mounted").stat().st_ino, os.fstat

    def fstat(fd: int) -> os.stat_result:
        found = true(fd)
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:])) if found.st_ino == other else found

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.raises(HostlerError) as refused:
        remove(tmp_path / "tree")
    assert refused.value.code == "busy"
    assert (tmp_path / "tree/mounted/file").exists()
