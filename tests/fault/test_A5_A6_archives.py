"""A5, A6: archives that bring too much, or something that reaches beyond the directory they belong in."""

import gzip
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.oci.unpack import GZIP, PLAIN, Budget, Unpacker
from hostler.base.errors import HostlerError, error
from support.hostile_archives import DIR, EVIL, HARD, HOSTILE, f, link
from support.registry import entry, layer


class Unpacking:
    """A directory to unpack into, and one beside it that nobody may touch."""

    def __init__(self, place: Path) -> None:
        self.root, self.outside = place / "root", place / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "shadow").write_bytes(b"root:x")
        self.before = self.seen()

    def seen(self) -> dict[str, bytes | int]:
        return {str(p): p.read_bytes() for p in sorted(self.outside.rglob("*"))}

    def unpack(self, *layers: bytes, media_type: str = PLAIN[0], **limits: Any) -> Unpacker:
        budget = Budget(**({"most_bytes": 1 << 26, "most_entries": 1000, "check": lambda: None} | limits))
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            unpacker = Unpacker(fd, budget)
            for index, data in enumerate(layers):
                file = self.root.parent / f"layer{index}"
                file.write_bytes(data)
                source = os.open(file, os.O_RDONLY)
                try:
                    unpacker.layer(source, media_type)
                finally:
                    os.close(source)
        finally:
            os.close(fd)
            assert self.seen() == self.before, "something outside was touched"
        return unpacker

    def failure(self, *layers: bytes, **given: Any) -> str:
        with pytest.raises(HostlerError) as failed:
            self.unpack(*layers, **given)
        return failed.value.code


@pytest.fixture
def unpacking(tmp_path: Path) -> Iterator[Unpacking]:
    made = Unpacking(tmp_path)
    yield made
    assert made.seen() == made.before


@pytest.mark.parametrize("name", HOSTILE)
def test_A6_a_hostile_entry_is_refused_and_nothing_outside_is_touched(unpacking: Unpacking, name: str) -> None:
    assert unpacking.failure(layer(f("harmless"), *HOSTILE[name])) == "unsafe_archive"


def test_A5_a_file_with_holes_is_refused_whatever_its_length_costs(unpacking: Unpacking) -> None:
    """The budget counts the bytes of the archive; a hole has none, and is written out as zeros all the same."""
    holes = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "f", "GNU.sparse.map": "0,4"}
    long = f("f", pax_headers=holes | {"GNU.sparse.size": str(100 << 20)})
    assert unpacking.failure(layer(long)) == "unsafe_archive"


def test_A6_a_link_of_one_layer_is_not_written_through_by_the_next(unpacking: Unpacking) -> None:
    (unpacking.root / "planted").symlink_to(unpacking.outside)
    assert unpacking.failure(layer(f("planted/f"))) == "unsafe_archive"
    unpacking.unpack(layer(f("planted")))  # replacing the link itself is what a layer may do
    assert (unpacking.root / "planted").read_bytes() == EVIL
    assert not (unpacking.root / "planted").is_symlink()


def test_A6_a_whiteout_takes_a_link_away_and_not_what_it_leads_to(unpacking: Unpacking) -> None:
    (unpacking.root / "planted").symlink_to(unpacking.outside)
    unpacking.unpack(layer(f(".wh.planted")))
    assert not (unpacking.root / "planted").is_symlink()


def test_what_an_honest_archive_brings_is_there(unpacking: Unpacking) -> None:
    data = layer((entry("d", DIR, mode=0o755), b""), f("d/f"), link("d/l", "f"), link("h", "d/f", HARD), f("./e"))
    unpacker = unpacking.unpack(data)
    assert (unpacking.root / "d" / "l").read_bytes() == (unpacking.root / "h").read_bytes() == EVIL
    assert (unpacking.root / "e").exists()
    assert unpacker.budget.entries == 5


def test_A5_a_bomb_ends_at_its_ratio_and_at_the_limit_of_bytes(unpacking: Unpacking) -> None:
    bomb = gzip.compress(layer(("zeros", bytes(1 << 26))), 9)
    assert len(bomb) < 100_000
    assert unpacking.failure(bomb, media_type=GZIP[0], most_bytes=1 << 30) == "too_large"
    assert sum(p.stat().st_size for p in unpacking.root.rglob("*") if p.is_file()) < 1 << 26
    for one in unpacking.root.iterdir():
        one.unlink()
    assert unpacking.failure(bomb, media_type=GZIP[0], most_bytes=1 << 20) == "too_large"


def test_A5_the_bytes_of_all_layers_together_are_bounded(unpacking: Unpacking) -> None:
    one, two = layer(("a", b"x" * 30_000)), layer(("b", b"x" * 30_000))
    unpacking.unpack(one, most_bytes=50_000)
    assert unpacking.failure(one, two, most_bytes=50_000) == "too_large"


def test_A5_the_number_of_entries_is_bounded(unpacking: Unpacking) -> None:
    assert unpacking.failure(layer(*(f(f"n{n}") for n in range(60))), most_entries=50) == "too_large"
    assert len(list(unpacking.root.iterdir())) <= 50


@pytest.mark.parametrize(
    "type_", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
)
def test_A5_a_header_of_a_gigabyte_is_not_read_into_memory(unpacking: Unpacking, type_: bytes) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = type_, 1 << 30
    data = header.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 22)
    tracemalloc.start()
    try:
        assert unpacking.failure(data) == "unsafe_archive"
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


def test_A5_the_disk_reserve_and_a_cancel_are_asked_on_the_way(unpacking: Unpacking) -> None:
    def full() -> None:
        raise error("disk_full", "no room")

    assert unpacking.failure(layer(f("a")), check=full) == "disk_full"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"no archive at all" * 100, PLAIN[0]),
        (b"no gzip", GZIP[0]),
        (gzip.compress(layer(("a", b"x" * 100_000)))[:-300], GZIP[0]),
        (layer(("a", b"x" * 100_000))[:20_000], PLAIN[0]),
        (layer(f("a")), "application/vnd.oci.image.layer.v1.tar+zstd"),
        (layer(f("a")), "text/html"),
    ],
    ids=["noise", "no gzip", "cut gzip", "cut tar", "zstd", "html"],
)
def test_A6_what_is_no_layer_is_refused(unpacking: Unpacking, data: bytes, media_type: str) -> None:
    assert unpacking.failure(data, media_type=media_type) in {"bad_response", "file_error"}


def test_A5_two_gzip_members_are_one_layer(unpacking: Unpacking) -> None:
    whole = layer(("a", b"x" * 30_000))
    unpacking.unpack(gzip.compress(whole[:9000]) + gzip.compress(whole[9000:]), media_type=GZIP[0])
    assert (unpacking.root / "a").read_bytes() == b"x" * 30_000
