"""The partial file: what is believed of it after a restart, and how it becomes the final one."""

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent.fetch.checkpoint import Checkpoint, Mark
from hostler.agent.fetch.partial import Partial, partial_name
from hostler.agent.fetch.present import look, set_mode
from hostler.agent.fetch.stream import Gauge
from hostler.agent.host.files import Files
from hostler.base.errors import HostlerError

DATA = random.Random(5).randbytes(5_000_000)
SHA = hashlib.sha256(DATA).hexdigest()
OFFSETS = (1_000_000, 2_500_000, 4_000_000)


def mark(offset: int) -> Mark:
    return Mark(offset, hashlib.sha256(DATA[:offset]).hexdigest())


CHECKPOINT = Checkpoint(source="s", etag='"v1"', marks=tuple(mark(offset) for offset in OFFSETS))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def resumed(directory: int, tmp_path: Path, left: bytes) -> tuple[int, str, bytes]:
    (tmp_path / partial_name(SHA)).write_bytes(left)
    file = Partial(directory, "out", SHA)
    try:
        grown, marks = file.resume(CHECKPOINT, Gauge(), lambda: False)
        assert [m.offset for m in marks] == [o for o in OFFSETS if o <= grown.offset]
        assert os.lseek(file.descriptor, 0, os.SEEK_CUR) == grown.offset
        return grown.offset, grown.digest.hexdigest(), (tmp_path / partial_name(SHA)).read_bytes()
    finally:
        file.close()


def test_SK_02_what_is_proved_is_kept_and_what_was_not_synced_is_cut_off(directory: int, tmp_path: Path) -> None:
    offset, digest, left = resumed(directory, tmp_path, DATA[:4_000_000] + b"\0" * 500_000)
    assert (offset, left) == (4_000_000, DATA[:4_000_000])
    assert digest == mark(4_000_000).sha256


@pytest.mark.parametrize(("flipped", "kept"), [(0, 0), (999_999, 0), (1_000_000, 1_000_000), (3_999_999, 2_500_000)])
def test_A3_an_altered_byte_costs_only_what_lies_behind_the_mark_before_it(
    directory: int, tmp_path: Path, flipped: int, kept: int
) -> None:
    altered = bytearray(DATA[:4_000_000])
    altered[flipped] ^= 1
    offset, digest, left = resumed(directory, tmp_path, bytes(altered))
    assert offset == kept
    assert left == DATA[:kept]
    assert digest == hashlib.sha256(DATA[:kept]).hexdigest()


@pytest.mark.parametrize("length", [0, 10, 1_000_000, 2_600_000])
def test_K7_a_file_shorter_than_its_checkpoint_is_believed_up_to_the_last_mark_it_reaches(
    directory: int, tmp_path: Path, length: int
) -> None:
    offset, _, left = resumed(directory, tmp_path, DATA[:length])
    assert offset == max([o for o in OFFSETS if o <= length], default=0)
    assert left == DATA[:offset]


def test_a_stop_while_reading_again_leaves_the_file_as_it_was(directory: int, tmp_path: Path) -> None:
    (tmp_path / partial_name(SHA)).write_bytes(DATA[:4_000_000])
    file = Partial(directory, "out", SHA)
    with pytest.raises(HostlerError):
        file.resume(CHECKPOINT, Gauge(), lambda: True)
    file.close()
    assert (tmp_path / partial_name(SHA)).stat().st_size == 4_000_000


@pytest.mark.parametrize("plant", ["symlink", "hardlink", "fifo", "directory"])
def test_a_planted_partial_file_is_never_written_to(directory: int, tmp_path: Path, plant: str) -> None:
    victim, name = tmp_path / "victim", tmp_path / partial_name(SHA)
    victim.write_bytes(b"precious")
    if plant == "symlink":
        name.symlink_to(victim)
    elif plant == "hardlink":
        os.link(victim, name)
    elif plant == "fifo":
        os.mkfifo(name)
    else:
        name.mkdir()
        with pytest.raises(HostlerError) as caught:
            Partial(directory, "out", SHA)
        assert caught.value.code == "file_error"
        return
    file = Partial(directory, "out", SHA)
    os.write(file.descriptor, b"bytes")
    file.close()
    assert victim.read_bytes() == b"precious"
    assert not name.is_symlink()
    assert name.read_bytes() == b"bytes"


def test_two_steps_never_write_one_partial_file(directory: int) -> None:
    first = Partial(directory, "out", SHA)
    with pytest.raises(HostlerError) as caught:
        Partial(directory, "out", SHA)
    assert caught.value.code == "file_error"
    first.close()
    Partial(directory, "out", SHA).close()


def test_K7_data_is_synced_before_the_name_and_the_directory_after(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, rename = os.fsync, os.rename

    def traced_sync(descriptor: int) -> None:
        order.append("directory" if descriptor == directory else "data")
        fsync(descriptor)

    def traced_rename(*names: object, **more: object) -> None:
        order.append("rename")
        rename(*names, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", traced_sync)
    monkeypatch.setattr(os, "rename", traced_rename)
    file = Partial(directory, "out", SHA)
    os.write(file.descriptor, b"bytes")
    file.finish(0o640)
    file.close()
    assert order == ["data", "rename", "directory"]
    assert (tmp_path / "out").read_bytes() == b"bytes"
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o640


def test_a_file_that_is_there_is_read_only_when_its_length_fits(directory: int, tmp_path: Path) -> None:
    files = Files(tmp_path)
    (tmp_path / "out").write_bytes(DATA)
    (tmp_path / "out").chmod(0o600)
    found = look(files, "/out")
    assert (found.sha256, found.size_bytes, found.mode) == (SHA, len(DATA), "0600")
    assert look(files, "/out", size=5).sha256 == ""
    assert not look(files, "/absent").exists
    set_mode(directory, "out", 0o644)
    assert look(files, "/out", size=5).mode == "0644"
    with pytest.raises(HostlerError):
        look(files, "/out", stopped=lambda: True)
