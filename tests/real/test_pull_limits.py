"""AR-06, AR-07, A4, A5: where a transfer may go, how much it may bring and how long it may take."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.wire.task import Policy
from support.blob_server import BlobServer, cut, drip, endless, header, redirect, silent, status
from support.certs import ServerCerts, make_server_certs
from support.pulling import DATA, Puller

SIZE = len(DATA)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def puller(tmp_path: Path, certs: ServerCerts) -> Iterator[Puller]:
    with BlobServer(certs) as server:
        yield Puller(tmp_path, server)


async def refused(puller: Puller, **given: object) -> HostlerError:
    """The error; nothing stands at the final path."""
    with pytest.raises(HostlerError) as caught:
        await puller.pull(**given)
    assert not puller.final.exists()
    return caught.value


# -- sources ------------------------------------------------------------------------------------


async def test_AR_06_a_source_outside_the_policy_is_not_asked(puller: Puller) -> None:
    policy = Policy(allowed_artifact_sources=("https://registry.test/",))
    assert (await refused(puller, policy=policy)).code == "source_denied"
    assert not puller.server.requests
    assert not puller.leftovers


async def test_AR_06_a_source_outside_the_definition_is_not_asked(puller: Puller) -> None:
    assert (await refused(puller, allowed_sources=())).code == "source_denied"
    assert not puller.server.requests


async def test_AR_06_a_redirect_inside_the_allowlist_is_followed_on_every_try(puller: Puller) -> None:
    puller.server.blobs["/store/model.bin"] = puller.server.blobs["/model.bin"]
    puller.server.faults += [redirect("/store/model.bin"), cut(1000), redirect("/store/model.bin", 307)]
    await puller.pull(allowed_sources=(puller.server.url("/"),))
    assert [asked.path for asked in puller.server.requests] == ["/model.bin", "/store/model.bin"] * 2
    assert puller.offsets == [0, 0, 1000, 1000]
    assert puller.final.read_bytes() == DATA


@pytest.mark.parametrize("location", ["https://127.0.0.1:{port}/model.bin", "http://localhost:{port}/model.bin"])
async def test_AR_06_a_redirect_out_of_the_allowlist_is_not_followed(puller: Puller, location: str) -> None:
    """A4: the metadata service of a cloud is the usual goal."""
    puller.server.faults += [redirect(location.format(port=puller.server.port))]
    error = await refused(puller, allowed_sources=(puller.server.url("/"),))
    assert error.code == "source_denied"
    assert len(puller.server.requests) == 1


async def test_AR_06_a_circle_of_redirects_ends(puller: Puller) -> None:
    puller.server.always = redirect("/model.bin")
    assert (await refused(puller)).code == "source_denied"
    assert len(puller.server.requests) == 6


async def test_A4_a_private_address_is_not_dialled_where_the_node_forbids_it(puller: Puller) -> None:
    puller.tune(allow_private=False)
    assert (await refused(puller)).code == "source_denied"
    assert not puller.server.requests


async def test_a_certificate_of_an_unknown_authority_is_refused_at_once(puller: Puller) -> None:
    puller.tune(ca_file="")
    assert (await refused(puller)).code == "source_denied"
    assert not puller.server.requests


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    with BlobServer(make_server_certs(tmp_path / "certs", ("other.test",))) as server:
        error = await refused(Puller(tmp_path, server))
    assert error.code == "source_denied"


async def test_S1_the_query_of_a_url_is_never_told(puller: Puller) -> None:
    puller.server.faults += [status(503), cut(1000), status(403)]
    url = puller.server.url("/model.bin?X-Signature=canary")
    error = await refused(puller, url=url)
    assert puller.server.requests[0].path.endswith("canary")
    assert "canary" not in repr((error.message, error.hint, puller.told))


# -- how much -----------------------------------------------------------------------------------


async def test_AR_07_the_policys_maximum_is_refused_by_the_announced_length(puller: Puller) -> None:
    error = await refused(puller, policy=Policy(max_artifact_size_bytes=SIZE - 1))
    assert error.code == "too_large"
    assert not puller.leftovers
    await puller.pull(policy=Policy(max_artifact_size_bytes=SIZE))


async def test_AR_07_an_endless_body_stops_at_the_limit(puller: Puller) -> None:
    puller.server.always = endless
    error = await refused(puller, policy=Policy(max_artifact_size_bytes=10_000_000), max_bytes=3_000_000)
    assert error.code == "too_large"
    assert not puller.leftovers
    assert len(puller.server.requests) == 1


async def test_AR_07_a_size_above_the_limit_is_refused_without_a_request(puller: Puller) -> None:
    assert (await refused(puller, size_bytes=SIZE, max_bytes=10)).code == "too_large"
    assert not puller.server.requests


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1])
async def test_a_length_other_than_the_one_asked_for_is_refused(puller: Puller, size: int) -> None:
    assert (await refused(puller, size_bytes=size)).code == "size_mismatch"
    puller.server.faults += [header("Content-Length", "")]
    assert (await refused(puller, size_bytes=size)).code == "size_mismatch"
    assert not puller.leftovers


async def test_A5_the_disk_reserve_is_kept(puller: Puller) -> None:
    puller.tune(disk_reserve_bytes=1 << 60)
    assert (await refused(puller)).code == "disk_full"


# -- how long -----------------------------------------------------------------------------------


async def test_A5_one_byte_a_second_ends_as_unreachable(puller: Puller) -> None:
    puller.tune(rate_window_seconds=0.3, min_rate_bytes_per_s=1000)
    puller.server.always = drip(1, 0.1)
    started = time.monotonic()
    error = await refused(puller, retries=1, deadline_s=5)
    assert error.code == "source_unreachable"
    assert "1000 bytes a second" in error.message
    assert len(puller.server.requests) == 2
    assert time.monotonic() - started < 5


async def test_A5_an_answer_that_never_comes_ends_too(puller: Puller) -> None:
    puller.tune(read_timeout_seconds=0.2)
    puller.server.always = silent
    assert (await refused(puller, retries=0)).code == "source_unreachable"


@pytest.mark.parametrize("fault", [silent, drip(1, 0.01), endless])
async def test_a_cancelled_transfer_ends_at_once(puller: Puller, fault) -> None:
    puller.server.always = fault
    cancelled = asyncio.Event()
    asked = 0.0

    async def cancel() -> None:
        nonlocal asked
        while not puller.server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        asked = time.monotonic()
        cancelled.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(cancel())
        error = await refused(puller, cancelled=cancelled)
    assert error.code == "canceled"
    assert time.monotonic() - asked < 2, "it waited for the source"
    assert not puller.leftovers


async def test_the_deadline_ends_a_transfer_and_leaves_it_to_be_resumed(puller: Puller) -> None:
    puller.tune(mark_seconds=0.1)
    puller.server.always = drip(1000, 0.01)
    started = time.monotonic()
    assert (await refused(puller, deadline_s=3.0)).code == "timeout"
    assert time.monotonic() - started < 15
    assert puller.leftovers
    assert puller.told.checkpoint["marks"]


async def test_a_cancelled_wait_between_two_tries_ends_at_once(puller: Puller) -> None:
    puller.server.always = status(503, Retry_After="20")
    cancelled = asyncio.Event()

    async def cancel() -> None:
        while not puller.told.lines:
            await asyncio.sleep(0.01)
        cancelled.set()

    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(cancel())
        assert (await refused(puller, cancelled=cancelled)).code == "canceled"
    assert time.monotonic() - started < 10, "it waited for the next try"


async def test_the_owners_own_end_stops_the_threads(puller: Puller) -> None:
    """A daemon that shuts down cancels the task; what was marked is resumed by the next one."""
    puller.server.always = drip(1000, 0.01)
    pulling = asyncio.ensure_future(puller.pull())
    while not pulling.done() and not any(path.stat().st_size for path in puller.leftovers):
        await asyncio.sleep(0.01)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling
    (left,) = puller.leftovers
    async with asyncio.timeout(5):  # the whole of it would come for longer
        size = -1
        while size != left.stat().st_size:
            size = left.stat().st_size
            await asyncio.sleep(0.2)


async def test_retry_after_is_honoured(puller: Puller) -> None:
    puller.server.faults += [status(429, Retry_After="1")]
    started = time.monotonic()
    await puller.pull()
    assert time.monotonic() - started >= 1.0


async def test_a_retry_after_beyond_the_deadline_ends_the_step_at_once(puller: Puller) -> None:
    puller.server.always = status(429, Retry_After="3600")
    started = time.monotonic()
    assert (await refused(puller)).code == "source_unreachable"
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (401, "source_denied"),
        (403, "source_denied"),
        (404, "source_unreachable"),
        (410, "source_unreachable"),
    ],
)
async def test_a_final_status_is_not_tried_again(puller: Puller, code: int, expected: str) -> None:
    puller.server.always = status(code)
    assert (await refused(puller)).code == expected
    assert len(puller.server.requests) == 1


async def test_transient_failures_end_after_the_retries(puller: Puller) -> None:
    puller.server.always = status(500)
    assert (await refused(puller, retries=3)).code == "source_unreachable"
    assert len(puller.server.requests) == 4


async def test_a_path_outside_the_nodes_prefixes_is_not_touched(puller: Puller) -> None:
    from dataclasses import replace

    from hostler.agent.steps.artifact_pull_blob import KIND

    context = puller.context()
    host = replace(context.host, write_prefixes=("/var/lib/models",))
    for work in (KIND.apply, KIND.plan):
        with pytest.raises(HostlerError) as caught:
            await work(replace(context, host=host))
        assert caught.value.code == "path_denied"
    assert not puller.server.requests
