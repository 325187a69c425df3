"""The private directory of an artifact on its way: one step at a time has it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent.oci.room import Room, Taken, sweep, workroom

DIGEST = f"sha256:{'a' * 64}"


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_RN_06_a_second_step_is_told_that_it_is_taken(parent: int) -> None:
    with workroom(parent, "store", DIGEST), pytest.raises(Taken) as taken, workroom(parent, "store", DIGEST):
        pass
    assert taken.value.code == "file_error"
    with workroom(parent, "store", DIGEST):
        pass


def test_RN_06_a_directory_that_goes_as_one_comes_in_is_no_room(
    parent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who had it takes it away and lets go of the lock between our opening it and our locking it."""
    lock = fcntl.flock

    def removed_first(fd: int, how: int) -> None:
        for place in tmp_path.iterdir():
            shutil.rmtree(place)
        lock(fd, how)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(fcntl, "flock", removed_first)
        with pytest.raises(Taken):
            Room(parent, ".hostler-oci-x")
    made = Room(parent, ".hostler-oci-x")
    with made.folder("blobs") as folder:
        assert list(os.scandir(folder)) == []
    made.close()


def test_RN_06_what_nobody_came_back_for_goes_and_nothing_else(parent: int, tmp_path: Path) -> None:
    names = {digit: f"sha256:{digit * 64}" for digit in "abc"}
    for digest in names.values():
        with workroom(parent, "store", digest) as room, room.folder("blobs/sha256"):
            pass
    rooms = {place.name for place in tmp_path.iterdir()}
    (tmp_path / "record").mkdir()
    (tmp_path / ".hostler-other").mkdir()
    for place in tmp_path.rglob("*"):
        os.utime(place, (1000, 1000))
    with workroom(parent, "store", names["a"]) as taken:
        gathering = Room(parent, next(name for name in rooms if name != taken.name))
        os.utime(tmp_path / gathering.name / "blobs/sha256", (3000, 3000))
        gathering.close()
        sweep(parent, 2000)
        left = {place.name for place in tmp_path.iterdir()}
    assert left == {"record", ".hostler-other", taken.name, gathering.name}
