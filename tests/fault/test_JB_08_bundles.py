"""JB-08, A5, A6, S2: a code bundle from a real control plane to a node: altered, hostile, cut, or not the node's.

The control plane, its mutual TLS, the network process's own code and the cache are the real ones.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.bundles import cache as cache_module
from hostler.agent.bundles.cache import BundleCache
from hostler.agent.bundles.contract import Piece
from hostler.agent.containers.workload import TaskFacts
from hostler.agent.lifecycle.bundles import BundleSource
from hostler.agent.outside import outside as outside_module
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Outside
from hostler.agent.outside.spawn import DEFAULT_USER, Child
from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError
from hostler.catalog.job import JobSpec
from hostler.control.kernel import code_bundles
from hostler.control.kernel.bundle_commands import BundleGrant
from hostler.control.rpc import bundle_feed
from hostler.wire.task import TaskSpec
from support.bundling import FakeSource, cache, facts, left
from support.fake_node import FakeNode, Session
from support.hostile_archives import HOSTILE, f
from support.outside import InProcess
from support.plane import ORG, PROJECT, Plane, plane
from support.registry import entry, layer
from support.tasking import CAPABILITIES, JOBS, submit_job

pytestmark = pytest.mark.timeout(60)
WHITEOUTS = {"whiteout of nothing"}  # a bundle has none: there it is a file's name
CODE = layer(*((entry(f"m{n}.py", mode=0o644), bytes([n]) * 300_000) for n in range(12)))
SHA = sha256_hex(CODE)


async def failure(work: Any) -> str:
    with pytest.raises(HostlerError) as failed:
        await work
    return failed.value.code


# -- what may come: judged by the node alone ------------------------------------------------------------


async def test_JB_08_an_altered_bundle_is_refused_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    source = FakeSource()
    sha256 = source.add(CODE[:-1] + b"!", SHA)
    assert await failure(cache(tmp_path, source).fetch(facts(), sha256)) == "digest_mismatch"
    assert left(tmp_path, ".part", ".new") == []


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - WHITEOUTS))
async def test_A6_a_hostile_bundle_is_refused_and_nothing_of_it_is_left(name: str, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "bundles"
    outside.mkdir()
    source = FakeSource()
    sha256 = source.add(layer(f("harmless"), *HOSTILE[name]))
    assert await failure(cache(folder, source).fetch(facts(), sha256)) == "unsafe_archive"
    assert left(folder, ".part", ".new") == []
    assert list(outside.iterdir()) == []


async def test_A6_a_name_like_a_whiteout_is_a_file_and_takes_nothing_away(tmp_path: Path) -> None:
    source = FakeSource()
    tree = await cache(tmp_path, source).fetch(facts(), source.add(layer(f("a"), f(".wh.a"), f(".wh..wh..opq"))))
    assert {path.name for path in tree.iterdir()} == {"a", ".wh.a", ".wh..wh..opq"}


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (CODE, {"max_bytes": len(CODE) - 1}),
        (CODE, {"unpacked_bytes": len(CODE) - 1}),
        (layer(*(f(f"n{n}") for n in range(60))), {"entries": 50}),
    ],
    ids=["long", "bomb", "entries"],
)
async def test_A5_limits_of_a_bundle_hold(data: bytes, limits: dict[str, int], tmp_path: Path) -> None:
    source = FakeSource()
    assert await failure(cache(tmp_path, source, **limits).fetch(facts(), source.add(data))) == "too_large"
    assert left(tmp_path, ".part", ".new") == []


async def test_A5_the_disk_reserve_is_respected(tmp_path: Path) -> None:
    source = FakeSource()
    assert await failure(cache(tmp_path, source, reserve_bytes=1 << 50).fetch(facts(), source.add(CODE))) == "disk_full"


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (lambda start, data: Piece(start + 1, len(data), data[start : start + 10]), "bad_range"),
        (lambda start, data: Piece(0, len(data), data[:10]), "bad_range"),
        (lambda start, data: Piece(start, len(data), b""), "bad_range"),
        (lambda start, data: Piece(start, 5, data[start : start + 10]), "size_mismatch"),
    ],
    ids=["gap", "again and again", "nothing", "more than said"],
)
async def test_A1_pieces_that_lie_are_not_spliced(lie: Any, code: str, tmp_path: Path) -> None:
    source = FakeSource()
    source.piece = lie  # type: ignore[method-assign]
    assert await failure(cache(tmp_path, source).fetch(facts(), source.add(CODE))) == code
    assert left(tmp_path, ".part", ".new") == []


# -- from the control plane to the node ----------------------------------------------------------------------


class Far:
    """A node's bundles, by way of the network process's code."""

    def __init__(self, node: FakeNode, outside: Outside, folder: Path) -> None:
        tls = Tls(
            trust_domain=node.trust_domain, ca_pems=node.ca_pems, key_pem=node.signer.to_pem(),
            chain_pem=node.certificate,
        )  # fmt: skip
        self.source = BundleSource(outside.pull, lambda: (tls, node.address))
        self.cache = BundleCache(folder, self.source, cache_module.BundleSettings(reserve_bytes=0), _clock())

    async def fetch(self, task: TaskSpec, sha256: str = SHA, **changes: str) -> Path:
        return await self.cache.fetch(facts_of(task, **changes), sha256)


def _clock() -> Any:
    from hostler.base.clock import SystemClock

    return SystemClock()


def facts_of(task: TaskSpec, **changes: str) -> TaskFacts:
    own = {"task_id": task.task_id, "attempt_uid": task.attempt_uid, "project_id": task.project_id} | changes
    return msgspec.structs.replace(facts(), **own)


@asynccontextmanager
async def far(node: FakeNode, folder: Path) -> AsyncIterator[Far]:
    inside = InProcess()
    outside = Outside(inside.connect)
    running = asyncio.create_task(outside.run())
    try:
        yield Far(node, outside, folder)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await asyncio.wait(inside.servers, timeout=5)


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[tuple[Plane, FakeNode]]:
    async with plane(folder, bundles=_small()) as control:
        await control.publish(JOBS)
        node = await control.enroll("gpu-1")
        await control.call("PUT", f"/api/v1/projects/{PROJECT}/bundles/{SHA}", 201, content=CODE)
        yield control, node


def _small() -> Any:
    from hostler.control.bundles.settings import BundleSettings

    return BundleSettings(reserve_bytes=0)


def opened(node: FakeNode) -> AbstractAsyncContextManager[Session]:
    return node.session(capabilities=CAPABILITIES)


async def job(control: Plane, node: FakeNode, org: str = ORG, project: str = PROJECT) -> str:
    spec = JobSpec(name="train", command=("true",), bundle=SHA)
    return await submit_job(control, node, spec, org=org, project=project)


async def test_JB_08_a_bundle_comes_whole_to_the_node_that_runs_the_job(tmp_path: Path) -> None:
    async with (
        house(tmp_path) as (control, node),
        far(node, tmp_path / "bundles") as there,
        opened(node) as session,
    ):
        await job(control, node)
        (task,) = await session.take()
        tree = await there.fetch(task)
        assert (tree / "m3.py").read_bytes() == b"\3" * 300_000
        assert len(list(tree.iterdir())) == 12
        (used,) = control.rows("SELECT last_used_ms - created_at_ms FROM bundles")
        assert used[0] > 0


async def test_JB_08_S2_a_foreign_task_node_or_bundle_is_refused_and_written_down(tmp_path: Path) -> None:
    async with house(tmp_path) as (control, node), opened(node) as session:
        stranger = await control.enroll("gpu-2")
        other = layer(f("secret of another job"))
        await control.call("PUT", f"/api/v1/projects/{PROJECT}/bundles/{sha256_hex(other)}", 201, content=other)
        await job(control, node)
        (task,) = await session.take()
        async with far(stranger, tmp_path / "b2") as there:
            assert await failure(there.fetch(task)) == "bundle_not_bound"
        async with far(node, tmp_path / "b1") as there:
            assert await failure(there.fetch(task, sha256_hex(other))) == "bundle_not_bound"
            assert await failure(there.fetch(task, attempt_uid="att_0")) == "bundle_not_bound"
            await session.report(node.finished(task))
            assert await failure(there.fetch(task)) == "bundle_not_bound"
        assert left(tmp_path / "b1") == left(tmp_path / "b2") == []
        refused = control.rows("SELECT actor FROM events WHERE type = 'bundle.fetch_refused' ORDER BY id")
        assert [actor for (actor,) in refused] == [stranger.node_id] + [node.node_id] * 3


async def test_AZ_10_a_job_that_names_another_project_s_bundle_gets_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as (control, _):
        theirs = await control.enroll("gpu-9", org="rival", project="lab")
        async with opened(theirs) as session, far(theirs, tmp_path / "b") as there:
            with monkeypatch.context() as patched:
                patched.setattr(code_bundles, "require", lambda *_: None)  # as if the submit had not looked
                await job(control, theirs, org="rival", project="lab")
            (task,) = await session.take()
            assert await failure(there.fetch(task)) == "bundle_missing"
            assert left(tmp_path / "b") == []


async def test_JB_08_a_bundle_altered_on_the_control_plane_s_disk_is_not_run(tmp_path: Path) -> None:
    async with (
        house(tmp_path) as (control, node),
        far(node, tmp_path / "b") as there,
        opened(node) as session,
    ):
        stored = Path(control.config.state_dir) / "bundles" / ORG / PROJECT / SHA
        altered = bytearray(CODE)
        altered[600] ^= 1
        stored.write_bytes(altered)
        await job(control, node)
        (task,) = await session.take()
        assert await failure(there.fetch(task)) == "digest_mismatch"
        assert left(tmp_path / "b", ".part", ".new") == []
        stored.write_bytes(CODE[:-1])
        assert await failure(there.fetch(task)) == "bundle_missing"


async def test_JB_08_a_network_process_killed_in_the_middle_costs_no_byte_twice(tmp_path: Path) -> None:
    async with house(tmp_path) as (control, node), opened(node) as session:
        await job(control, node)
        (task,) = await session.take()
        child = Child(DEFAULT_USER, "json", "error")
        outside = Outside(child.connect)
        running = asyncio.create_task(outside.run())
        there = Far(node, outside, tmp_path / "b")
        asked: list[int] = []
        whole = there.source

        async def breaking(task_id: str, attempt: str, sha256: str, offset: int) -> Any:
            asked.append(offset)
            is_cut = len(asked) < 3
            async with aclosing(whole(task_id, attempt, sha256, offset)) as pieces:
                async for piece in pieces:
                    yield piece
                    if is_cut and piece.offset - offset > 1_000_000:
                        is_cut = False  # pieces are still on their way, and the next process may have begun
                        os.kill(child.pid, signal.SIGKILL)

        there.cache._source = breaking
        try:
            tree = await there.fetch(task)
        finally:
            running.cancel()
            await asyncio.wait([running])
            child.stop()
        assert len(list(tree.iterdir())) == 12
        assert asked[0] == 0
        assert len(asked) >= 2
        assert asked == sorted(asked)
        assert 1_000_000 < asked[1] < len(CODE)


@pytest.mark.parametrize(("end", "code"), [("cancel", "bundle_not_bound"), ("revoke", "revoked")])
async def test_JB_08_who_may_no_more_gets_no_more(end: str, code: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Cancelled or revoked in the middle: the stream ends at the next look, not at its own end."""
    monkeypatch.setattr(bundle_feed, "_LOOK_AGAIN_BYTES", bundle_feed.CHUNK_BYTES)
    looks, goes_on, look_again = asyncio.Event(), asyncio.Event(), bundle_feed.BundleFeed._look_again

    async def held_up(feed: Any, *asked: Any) -> None:
        looks.set()
        await goes_on.wait()
        await look_again(feed, *asked)

    monkeypatch.setattr(bundle_feed.BundleFeed, "_look_again", held_up)
    async with (
        house(tmp_path) as (control, node),
        far(node, tmp_path / "b") as there,
        opened(node) as session,
    ):
        operation_id = await job(control, node)
        (task,) = await session.take()
        pieces = there.source(task.task_id, task.attempt_uid, SHA, 0)
        first = await anext(pieces)
        await looks.wait()
        if end == "cancel":
            await control.call("POST", f"/api/v1/projects/{PROJECT}/operations/{operation_id}/cancel", 202)
        else:

            async def as_before(*_: Any) -> BundleGrant:
                return BundleGrant(ORG, PROJECT, len(CODE))

            monkeypatch.setattr(bundle_feed.BundleFeed, "_grant", as_before)  # the certificate alone is judged
            await control.call("POST", f"/api/v1/admin/nodes/{node.node_id}/revoke")
        goes_on.set()
        assert await failure(anext(pieces)) == code
        assert len(first.data) == bundle_feed.CHUNK_BYTES


async def test_a_node_fetches_so_many_at_once(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(bundle_feed, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(bundle_feed, "_LOOK_AGAIN_BYTES", bundle_feed.CHUNK_BYTES)

    async def for_ever(*_: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(bundle_feed.BundleFeed, "_look_again", for_ever)  # the first one stays open
    async with (
        house(tmp_path) as (control, node),
        far(node, tmp_path / "b") as there,
        opened(node) as session,
    ):
        await job(control, node)
        (task,) = await session.take()
        first, second = (there.source(task.task_id, task.attempt_uid, SHA, 0) for _ in range(2))
        await anext(first)
        assert await failure(anext(second)) == "rate_limited"
        await first.aclose()


async def test_SE_04_no_more_waits_in_the_runner_than_it_asked_for(tmp_path: Path, monkeypatch: Any) -> None:
    """A reader that stops reading holds up to `CREDIT` pieces, however long the bundle is."""
    monkeypatch.setattr(outside_module, "CREDIT", 2)
    async with (
        house(tmp_path) as (control, node),
        far(node, tmp_path / "b") as there,
        opened(node) as session,
    ):
        await job(control, node)
        (task,) = await session.take()
        pieces = there.source(task.task_id, task.attempt_uid, SHA, 0)
        await anext(pieces)
        await asyncio.sleep(0.3)
        outside = there.source._pull.__self__  # type: ignore[attr-defined]
        (waiting,) = outside._pulls.values()
        assert waiting.qsize() <= 2
        await pieces.aclose()
        assert not outside._pulls


async def test_SE_04_a_network_process_that_sends_unasked_loses_the_pull_and_fills_no_memory() -> None:
    from hostler.agent.outside.frames import Piece as Frame

    outside = Outside(InProcess().connect)
    queue: asyncio.Queue[Any] = asyncio.Queue()
    outside._pulls[7] = queue
    for _ in range(100):
        outside._pulled(Frame(call=7, data=b"x"))
    assert queue.qsize() == outside_module.CREDIT + 1
    taken = [queue.get_nowait() for _ in range(queue.qsize())]
    assert taken[-1].code == "malformed_envelope"
