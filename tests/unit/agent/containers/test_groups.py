"""Control groups of both versions, and what may stand in for /dev/shm."""

from pathlib import Path

import pytest

from hostler.agent.containers import groups
from hostler.agent.containers.groups import Fenced
from hostler.agent.containers.shm import shm_of
from hostler.agent.containers.spec import Limits
from hostler.base.errors import HostlerError

FIRST = "9:name=systemd:/x\n8:pids:/k8s/one\n4:cpu,cpuacct:/k8s/one\n0::/\n"


def test_a_group_is_found_by_its_controller(tmp_path: Path) -> None:
    for name in ("pids", "cpu"):
        (tmp_path / name / "k8s" / "one").mkdir(parents=True)
    assert groups.directory(FIRST, "pids", tmp_path) == tmp_path / "pids/k8s/one"
    assert groups.directory(FIRST, "cpu", tmp_path) == tmp_path / "cpu/k8s/one"
    assert groups.directory(FIRST, "memory", tmp_path) is None
    assert groups.directory(FIRST.replace("one", "gone"), "pids", tmp_path) is None


def test_with_version_2_alone_one_group_has_all(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "kube" / "one").mkdir(parents=True)
    assert groups.unified(tmp_path)
    assert groups.directory("0::/kube/one\n", "pids", tmp_path) == tmp_path / "kube/one"


def test_limits_are_written_where_their_files_are(tmp_path: Path) -> None:
    """Version 2 as far as a plain directory can stand in for it."""
    (tmp_path / "cgroup.controllers").touch()
    fenced = Fenced("t1", tmp_path)
    (group,) = fenced.make(Limits(cpu_millis=1500, memory_bytes=4096, pids=7))
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        (group / name).touch()
    assert fenced.make(Limits(cpu_millis=1500, memory_bytes=4096, pids=7)) == [group]
    said = {path.name: path.read_text() for path in group.iterdir()}
    assert said == {"memory.max": "4096", "memory.swap.max": "0", "pids.max": "7", "cpu.max": "150000 100000"}
    assert (tmp_path / "hostler" / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    (group / "memory.stat").write_text("inactive_file 5\n")
    assert (fenced.number("memory.current", "pids.max"), fenced.field("memory.stat", "inactive_file")) == (7, 5)
    assert (fenced.number("none"), fenced.field("memory.stat", "none"), fenced.field("none", "x")) == (0, 0, 0)


def test_where_no_group_can_be_made_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "hostler").write_text("in the way")
    fenced = Fenced("t1", tmp_path)
    assert fenced.make(Limits(pids=7)) == []
    fenced.kill()
    fenced.remove()


@pytest.mark.parametrize("planted", ["link", "open"])
def test_J5_a_directory_that_somebody_else_may_have_made_holds_no_shared_memory(tmp_path: Path, planted: str) -> None:
    place = tmp_path / "shm"
    if planted == "link":
        (tmp_path / "theirs").mkdir()
        place.symlink_to(tmp_path / "theirs")
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(HostlerError) as refused:
        shm_of(place, "t1")
    assert refused.value.code == "container_failed"
