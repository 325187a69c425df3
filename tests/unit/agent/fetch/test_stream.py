"""The four stages between socket and disk, with bodies made here and a real file."""

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.agent.fetch import stream as stream_module
from hostler.agent.fetch.budget import Transient
from hostler.agent.fetch.checkpoint import Mark
from hostler.agent.fetch.stream import Gauge, Grown, Limits, Stream
from hostler.base.errors import HostlerError, error

DATA = random.Random(3).randbytes(3_000_017)


class Pieces:
    """A body in pieces of odd sizes; ends by end of file or as told."""

    def __init__(self, data: bytes, piece: int = 16_384, then: Callable[[], None] | None = None) -> None:
        self._data, self._at, self._piece, self._then = data, 0, piece, then

    def read_into(self, view: memoryview) -> int:
        data = self._data[self._at : self._at + min(self._piece, len(view))]
        if not data and self._then is not None:
            self._then()
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def cut() -> None:
    raise Transient("cut")


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Grown]:
    descriptor = os.open(tmp_path / "part", os.O_RDWR | os.O_CREAT)
    yield Grown(descriptor)
    os.close(descriptor)


def run(grown: Grown, body: Pieces, **limits: object) -> list[Mark]:
    marks: list[Mark] = []
    Stream(grown, Gauge(), Limits(**limits), marks.append).run(body)  # type: ignore[arg-type]
    return marks


def on_disk(grown: Grown) -> bytes:
    return os.pread(grown.descriptor, 1 << 24, 0)


@pytest.mark.parametrize("piece", [1013, 16_384, 1 << 20])
def test_a_body_reaches_the_disk_and_the_hash_in_order(grown: Grown, piece: int) -> None:
    run(grown, Pieces(DATA, piece), length=len(DATA))
    assert on_disk(grown) == DATA
    assert grown.offset == len(DATA)
    assert grown.digest.hexdigest() == hashlib.sha256(DATA).hexdigest()


def test_a_second_body_goes_on_where_the_first_was_cut(grown: Grown) -> None:
    with pytest.raises(Transient):
        run(grown, Pieces(DATA[:1_000_003], then=cut), length=len(DATA))
    assert (grown.offset, on_disk(grown)) == (1_000_003, DATA[:1_000_003])
    run(grown, Pieces(DATA[1_000_003:]), length=len(DATA) - 1_000_003)
    assert grown.digest.hexdigest() == hashlib.sha256(DATA).hexdigest()
    assert on_disk(grown) == DATA


def test_a_body_shorter_than_announced_is_a_cut(grown: Grown) -> None:
    with pytest.raises(Transient):
        run(grown, Pieces(DATA[:-1]), length=len(DATA))


def test_a_body_without_a_length_ends_with_the_connection(grown: Grown) -> None:
    run(grown, Pieces(DATA), length=-1)
    assert on_disk(grown) == DATA


def test_bytes_beyond_the_announced_length_are_never_read(grown: Grown) -> None:
    run(grown, Pieces(DATA), length=1000)
    assert on_disk(grown) == DATA[:1000]


def test_AR_07_the_size_limit_holds_while_streaming(grown: Grown) -> None:
    with pytest.raises(HostlerError) as caught:
        run(grown, Pieces(DATA), length=-1, most=1_000_000)
    assert caught.value.code == "too_large"
    assert len(on_disk(grown)) <= 1_000_000


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_a_body_of_another_length_than_expected_is_refused(grown: Grown, size: int) -> None:
    with pytest.raises(HostlerError) as caught:
        run(grown, Pieces(DATA), length=-1, size=size)
    assert caught.value.code == "size_mismatch"


def test_marks_are_digests_of_prefixes_that_are_on_disk(grown: Grown) -> None:
    seen: list[tuple[Mark, bytes]] = []
    limits = Limits(length=len(DATA), mark_bytes=600_000)
    stream = Stream(grown, Gauge(), limits, lambda mark: seen.append((mark, on_disk(grown)[: mark.offset])))
    stream.run(Pieces(DATA))
    assert seen
    for mark, prefix in seen:
        assert len(prefix) == mark.offset
        assert hashlib.sha256(DATA[: mark.offset]).hexdigest() == mark.sha256 == hashlib.sha256(prefix).hexdigest()


def test_K7_a_mark_is_told_only_after_the_sync(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[object] = []
    monkeypatch.setattr(stream_module.os, "fdatasync", lambda descriptor: order.append("sync"))
    limits = Limits(length=len(DATA), mark_bytes=600_000)
    Stream(grown, Gauge(), limits, order.append).run(Pieces(DATA))
    assert order[::2] == ["sync"] * (len(order) // 2)
    assert all(isinstance(mark, Mark) for mark in order[1::2])


def test_a_full_disk_ends_the_transfer_and_nobody_hangs(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stream_module.os, "write", full)
    with pytest.raises(HostlerError) as caught:
        run(grown, Pieces(DATA * 10), length=10 * len(DATA))
    assert caught.value.code == "disk_full"


def test_A5_the_disk_reserve_is_looked_at_while_an_endless_body_comes(grown: Grown) -> None:
    def none_left() -> None:
        raise error("disk_full", "nothing is left")

    class Endless:
        def read_into(self, view: memoryview) -> int:
            return len(view)

    with pytest.raises(HostlerError) as caught:
        Stream(grown, Gauge(), Limits(free=none_left, mark_bytes=1), lambda mark: None).run(Endless())
    assert caught.value.code == "disk_full"
    assert grown.offset < 1 << 30


def test_short_writes_are_completed(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(stream_module.os, "write", lambda fd, data: write(fd, bytes(data[:70_001])))
    run(grown, Pieces(DATA), length=len(DATA))
    assert on_disk(grown) == DATA
