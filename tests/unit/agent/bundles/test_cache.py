"""Bundles of a node: one transfer for many tasks, resumed, shared by a project, kept while they are used (JB-08)."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.bundles import transfer
from hostler.agent.bundles.shelf import Shelf
from hostler.base.errors import HostlerError, error
from support.bundling import PIECE, FakeSource, cache, facts, left
from support.control import FrozenClock
from support.registry import entry, layer

pytestmark = pytest.mark.timeout(30)
CODE = layer((entry("main.py", mode=0o644), b"print(1)\n" * 5000), (entry("run", mode=0o755), b"#!/bin/sh\n"))


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_BASE_S", 0.001)


def padded(data: bytes, number: int) -> bytes:
    return data + bytes(10_240 * number)


async def failure(work: Any) -> str:
    with pytest.raises(HostlerError) as failed:
        await work
    return failed.value.code


async def test_JB_08_a_bundle_is_unpacked_readable_by_all_and_writable_by_nobody(tmp_path: Path) -> None:
    source = FakeSource()
    tree = await cache(tmp_path, source).fetch(facts(), source.add(CODE))
    assert (tree / "main.py").read_bytes() == b"print(1)\n" * 5000
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tree, tree / "main.py", tree / "run")}
    assert modes == {tree.name: 0o555, "main.py": 0o444, "run": 0o555}
    assert left(tmp_path, ".part", ".new") == [str(tree.relative_to(tmp_path))]


async def test_two_tasks_that_want_the_same_wait_for_one_transfer(tmp_path: Path) -> None:
    source = FakeSource()
    kept, sha256 = cache(tmp_path, source), source.add(CODE)
    trees = await asyncio.gather(*(kept.fetch(facts(f"att_{n}"), sha256) for n in range(5)))
    assert len(set(trees)) == 1
    assert len(source.asked) == 1
    assert len(await asyncio.gather(*(kept.fetch(facts(f"att_{n}"), sha256) for n in range(5)))) == 5
    assert len(source.asked) == 1


async def test_the_next_one_tries_by_its_own_right_when_the_first_may_not(tmp_path: Path) -> None:
    source = FakeSource(refused="bundle_not_bound")
    kept, sha256 = cache(tmp_path, source), source.add(CODE)
    first = asyncio.create_task(failure(kept.fetch(facts("att_1"), sha256)))
    assert await first == "bundle_not_bound"
    source.refused = ""
    assert (await kept.fetch(facts("att_2"), sha256)).is_dir()


async def test_AZ_10_another_project_of_this_node_has_to_fetch_it_itself(tmp_path: Path) -> None:
    source = FakeSource()
    kept, sha256 = cache(tmp_path, source), source.add(CODE)
    await kept.fetch(facts(), sha256)
    source.refused = "bundle_not_bound"
    for other in (facts("att_2", project="lab"), facts("att_2", org="rival")):
        assert await failure(kept.fetch(other, sha256)) == "bundle_not_bound"
    assert len(left(tmp_path)) == 1


async def test_a_transfer_that_is_cut_goes_on_where_it_stood(tmp_path: Path) -> None:
    source = FakeSource(cuts=[3, 0, 2])
    await cache(tmp_path, source).fetch(facts(), source.add(CODE))
    assert [offset for _, offset in source.asked] == [0, 3 * PIECE, 3 * PIECE, 5 * PIECE]


async def test_a_transfer_goes_on_after_a_crash_and_after_giving_up(tmp_path: Path) -> None:
    source = FakeSource(cuts=[3] + [0] * 50)
    sha256 = source.add(CODE)
    assert await failure(cache(tmp_path, source, retries=2).fetch(facts(), sha256)) == "controller_unreachable"
    source.asked.clear()
    source.cuts.clear()
    kept = cache(tmp_path, source)
    await kept.tidy()
    await kept.fetch(facts(), sha256)
    assert [offset for _, offset in source.asked] == [3 * PIECE]


async def test_a_partial_file_that_was_altered_costs_one_more_transfer(tmp_path: Path) -> None:
    source = FakeSource(cuts=[3] + [0] * 50)
    sha256 = source.add(CODE)
    await failure(cache(tmp_path, source, retries=0).fetch(facts(), sha256))
    (part,) = tmp_path.glob("*/*.part")
    part.write_bytes(b"x" * part.stat().st_size)
    source.cuts.clear()
    source.asked.clear()
    await cache(tmp_path, source).fetch(facts(), sha256)
    assert [offset for _, offset in source.asked] == [3 * PIECE, 0]


async def test_a_whole_partial_file_is_not_asked_for_again(tmp_path: Path) -> None:
    source = FakeSource()
    sha256, kept = source.add(CODE), cache(tmp_path, source)
    tree = await kept.fetch(facts(), sha256)
    other = tree.with_name(source.add(padded(CODE, 1)))
    other.with_name(other.name + ".part").write_bytes(padded(CODE, 1))
    await kept.fetch(facts("att_2"), other.name)
    assert len(source.asked) == 1


async def test_a_cancelled_fetch_leaves_nothing_running_and_the_next_one_succeeds(tmp_path: Path) -> None:
    source, gate = FakeSource(), asyncio.Event()
    sha256, piece = source.add(CODE), source.piece

    class Slow(FakeSource):
        async def __call__(self, *asked: Any) -> Any:
            self.asked.append(asked[2:])
            yield piece(asked[3], CODE)
            gate.set()
            await asyncio.sleep(60)

    kept = cache(tmp_path, slow := Slow())
    waiting = asyncio.create_task(kept.fetch(facts(), sha256))
    await gate.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    kept._source = source
    await kept.fetch(facts("att_2"), sha256)
    assert source.asked == [("att_2", PIECE)]
    assert len(slow.asked) == 1


async def test_room_is_made_by_what_was_used_longest_ago_and_never_by_what_is_in_use(tmp_path: Path) -> None:
    clock, source = FrozenClock(), FakeSource()
    digests = [source.add(padded(CODE, number)) for number in range(4)]
    kept = cache(tmp_path, source, clock, cache_bytes=3 * len(CODE))
    for number, sha256 in enumerate(digests[:3]):
        clock.move(1000)
        await kept.fetch(facts(f"att_{number}"), sha256)
    await kept.release("att_1")
    clock.move(1000)
    await kept.fetch(facts("att_3"), digests[3])
    there = {Path(name).name for name in left(tmp_path)}
    assert there == {digests[0], digests[2], digests[3]}
    assert left(tmp_path, ".gone") == left(tmp_path)


async def test_two_that_make_room_at_once_take_each_tree_away_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, both = FakeSource(), threading.Barrier(2)
    kept = cache(tmp_path, source)
    for number in range(3):
        await kept.fetch(facts(f"att_{number}"), source.add(padded(CODE, number)))
        await kept.release(f"att_{number}")
    look = Shelf._kept

    def look_at_once(shelf: Shelf) -> Iterator[Any]:
        found = list(look(shelf))
        both.wait(5)
        return iter(found)

    monkeypatch.setattr(Shelf, "_kept", look_at_once)
    gone = await asyncio.gather(*(asyncio.to_thread(kept._shelf.evict, 0) for _ in range(2)))
    assert (sum(gone), left(tmp_path)) == (3, [])


async def test_after_a_restart_what_a_crash_left_goes_and_holds_of_ended_attempts_too(tmp_path: Path) -> None:
    clock, source = FrozenClock(), FakeSource()
    sha256, other = source.add(CODE), source.add(padded(CODE, 1))
    kept = cache(tmp_path, source, clock)
    tree = await kept.fetch(facts("att_1"), sha256)
    await kept.fetch(facts("att_2"), other)
    for ending in (".new", ".gone"):
        half = tree.with_name("c" * 64 + ending)
        half.mkdir()
        (half / "f").write_text("half")
        half.chmod(0o555)
    old, young = (tree.with_name(letter * 64 + ".part") for letter in "de")
    for part in (old, young):
        part.write_text("some")
    os.utime(young, (clock.now_ms() / 1000,) * 2)
    await kept.release("att_2")
    await cache(tmp_path, source, clock, cache_bytes=0).tidy()
    assert [Path(name).name for name in left(tmp_path, ".new", ".gone", ".part")] == [sha256, young.name]


async def test_what_is_no_digest_or_no_attempt_never_becomes_a_path(tmp_path: Path) -> None:
    kept = cache(tmp_path, FakeSource())
    for sha256, attempt in (("../x", "att_1"), ("A" * 64, "att_1"), ("a" * 64, "../../x"), ("a" * 64, "")):
        assert await failure(kept.fetch(facts(attempt), sha256)) == "binding_error"
    assert list(tmp_path.iterdir()) == []


async def test_A5_a_transfer_leaves_the_reserve_alone(tmp_path: Path) -> None:
    """At the first piece, not only when it is unpacked: nothing was written."""
    source = FakeSource()
    assert await failure(cache(tmp_path, source, reserve_bytes=1 << 50).fetch(facts(), source.add(CODE))) == "disk_full"
    (part,) = tmp_path.glob("*/*.part")
    assert part.stat().st_size == 0


async def test_on_a_full_disk_what_no_task_uses_goes_and_what_is_used_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FakeSource()
    kept = cache(tmp_path, source)
    used, unused, wanted = (source.add(padded(CODE, number)) for number in range(3))
    await kept.fetch(facts("att_1"), used)
    gone = await kept.fetch(facts("att_2"), unused)
    await kept.release("att_2")
    write = transfer.Part.write

    def full_while_it_is_there(part: transfer.Part, data: bytes) -> None:
        if gone.exists():
            raise error("disk_full", "no room")
        write(part, data)

    monkeypatch.setattr(transfer.Part, "write", full_while_it_is_there)
    await kept.fetch(facts("att_3"), wanted)
    assert {Path(name).name for name in left(tmp_path)} == {used, wanted}


@pytest.mark.parametrize("call", ["mkdir", "touch", "rename", "write_text"])
@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "disk_full"), (errno.EROFS, "file_error")])
async def test_K4_a_disk_that_takes_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, code: str
) -> None:
    """Where no inode is left there may be bytes enough."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    source = FakeSource()
    kept, sha256 = cache(tmp_path, source), source.add(CODE)
    with monkeypatch.context() as sick:
        sick.setattr(Path, call, refuse)
        assert await failure(kept.fetch(facts(), sha256)) == code
    assert (await kept.fetch(facts(), sha256)).is_dir()
