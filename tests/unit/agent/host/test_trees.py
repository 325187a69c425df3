"""Directories and the link between them, beneath the root, links never followed: J1, SK-06."""

from pathlib import Path

import pytest

from hostler.agent.host.files import Files
from hostler.agent.host.trees import Trees
from support.refusals import refused


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path, Files(tmp_path, ("/srv",), ("/srv/private",)))


def test_a_tree_is_made_named_pointed_to_and_removed(trees: Trees, tmp_path: Path) -> None:
    trees.make("/srv/env/a")
    assert (tmp_path / "srv/env/a").stat().st_mode & 0o777 == 0o755
    assert refused(trees.make, "/srv/env/a") == "file_error"
    trees.point("/srv/env/current", "a")
    assert (trees.target("/srv/env/current"), trees.names("/srv/env")) == ("a", ["a", "current"])
    trees.make("/srv/env/b")
    trees.point("/srv/env/current", "b")
    assert trees.target("/srv/env/current") == "b"
    (tmp_path / "srv/env/a/file").write_text("x")
    trees.remove("/srv/env/a")
    trees.remove("/srv/env/a")
    assert trees.names("/srv/env") == ["b", "current"]
    assert (trees.target("/srv/env/b"), trees.target("/srv/absent/x"), trees.names("/srv/absent")) == ("", "", [])


@pytest.mark.parametrize("target", ["../outside", "/etc", "a/b", "..", ".", ""])
def test_J1_a_link_leads_nowhere_but_beside_itself(trees: Trees, tmp_path: Path, target: str) -> None:
    trees.make("/srv/env")
    assert refused(trees.point, "/srv/env/current", target) == "path_denied"
    assert trees.names("/srv/env") == []


def test_J1_what_is_no_link_is_not_replaced_by_one(trees: Trees, tmp_path: Path) -> None:
    trees.make("/srv/env/current")
    assert refused(trees.point, "/srv/env/current", "a") == "path_denied"
    assert (tmp_path / "srv/env/current").is_dir()


def test_J1_removing_follows_no_link(trees: Trees, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_text("x")
    trees.make("/srv/env")
    (tmp_path / "srv/env/way").symlink_to(tmp_path / "outside")
    trees.remove("/srv/env/way")
    (tmp_path / "srv/env/way").symlink_to(tmp_path / "outside")
    trees.remove("/srv/env")
    (tmp_path / "srv/way").symlink_to(tmp_path / "outside")
    assert refused(trees.remove, "/srv/way/kept") == "path_denied"
    assert (tmp_path / "outside/kept").exists()


@pytest.mark.parametrize("path", ["/etc/x", "/srv/private/x", "/srv/../etc/x", "relative"])
def test_outside_the_prefixes_nothing_is_made_pointed_or_removed(trees: Trees, tmp_path: Path, path: str) -> None:
    for action, *more in ((trees.make,), (trees.remove,), (trees.point, "a")):
        assert refused(action, path, *more) == "path_denied"


def test_a_directory_is_held_by_one_at_a_time(trees: Trees) -> None:
    with trees.held("/srv/env"):
        assert refused(trees.held("/srv/env").__enter__) == "file_error"
    with trees.held("/srv/env"):
        pass
