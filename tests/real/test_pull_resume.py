"""SK-02, AR-04, A1, A2: transfers that break, against a real TLS server."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent.fetch.checkpoint import Checkpoint, Mark, source_of
from hostler.agent.fetch.partial import partial_name
from hostler.agent.steps.artifact_pull_blob import KIND
from hostler.agent.steps.contract import Truth
from hostler.base.errors import HostlerError
from support.blob_server import (
    Blob,
    BlobServer,
    Fault,
    chunked,
    content_range,
    cut,
    gzipped,
    header,
    honest,
    other_bytes,
    shifted,
    silent,
    status,
    whole_for_part,
)
from support.certs import ServerCerts, make_server_certs
from support.pulling import DATA, SHA, Puller

FIFTH = len(DATA) // 5
SIZE = len(DATA)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def puller(tmp_path: Path, certs: ServerCerts) -> Iterator[Puller]:
    with BlobServer(certs) as server:
        yield Puller(tmp_path, server)


async def test_AR_04_a_blob_arrives_whole_with_its_mode_and_outputs(puller: Puller) -> None:
    outcome = await puller.pull(mode="0640", size_bytes=SIZE)
    assert puller.final.read_bytes() == DATA
    assert puller.final.stat().st_mode & 0o7777 == 0o640
    assert outcome.outputs == {
        "path": "/srv/models/model.bin",
        "sha256": SHA,
        "size_bytes": SIZE,
        "bytes_transferred": SIZE,
    }
    assert outcome.changed
    assert not outcome.files_before[0].exists
    assert puller.told.progress[-1] == (SIZE, SIZE, "bytes")
    assert not puller.leftovers


async def test_a_file_that_is_there_already_costs_no_request(puller: Puller) -> None:
    await puller.pull()
    puller.server.requests.clear()
    outcome = await puller.pull()
    assert not outcome.changed
    assert outcome.outputs["bytes_transferred"] == 0
    assert not puller.server.requests


async def test_a_file_with_other_content_is_replaced_in_one_step(puller: Puller) -> None:
    puller.final.parent.mkdir(parents=True)
    puller.final.write_bytes(b"old")
    outcome = await puller.pull()
    assert puller.final.read_bytes() == DATA
    assert outcome.files_before[0].size_bytes == 3


async def test_a_file_with_the_wrong_mode_is_only_given_the_right_one(puller: Puller) -> None:
    await puller.pull(mode="0600")
    puller.server.requests.clear()
    outcome = await puller.pull(mode="0644")
    assert outcome.changed
    assert not puller.server.requests
    assert puller.final.stat().st_mode & 0o777 == 0o644


async def test_SK_02_a_cut_transfer_goes_on_with_a_conditional_range(puller: Puller) -> None:
    puller.server.faults += [cut(SIZE * 6 // 10)]
    outcome = await puller.pull()
    assert puller.offsets == [0, SIZE * 6 // 10]
    assert puller.server.requests[1].headers["if-range"] == '"v1"'
    assert puller.server.requests[1].headers["accept-encoding"] == "identity"
    assert outcome.outputs["bytes_transferred"] == SIZE
    assert puller.final.read_bytes() == DATA


async def test_SK_02_after_a_restart_of_the_agent_the_transfer_resumes_and_fits(puller: Puller) -> None:
    """Cut at 60 %, agent gone, next process: only the checkpoint and the partial file are left."""
    puller.server.always = status(503)
    puller.server.faults += [cut(SIZE * 6 // 10)]
    with pytest.raises(HostlerError) as caught:
        await puller.pull(retries=1)
    assert caught.value.code == "source_unreachable"
    assert not puller.final.exists()
    puller.server.always, puller.server.requests = None, []
    outcome = await puller.pull(resume=True)
    assert puller.offsets == [SIZE * 6 // 10]
    assert outcome.outputs["bytes_transferred"] == SIZE - SIZE * 6 // 10
    assert puller.final.read_bytes() == DATA


async def test_K7_blob_unsynced_bytes_are_fetched_again_after_a_power_cut(puller: Puller) -> None:
    """What the disk lost behind the last mark is zeros now; it is cut off, not trusted."""
    puller.server.always = status(503)
    puller.server.faults += [cut(SIZE // 2)]
    with pytest.raises(HostlerError):
        await puller.pull(retries=0)
    with puller.leftovers[0].open("ab") as partial:
        partial.write(b"\0" * 5000)
    puller.server.always = None
    await puller.pull(resume=True)
    assert puller.offsets[-1] == SIZE // 2
    assert puller.final.read_bytes() == DATA


async def test_A3_a_local_part_that_was_altered_is_not_continued(puller: Puller) -> None:
    puller.server.always = status(503)
    puller.server.faults += [cut(SIZE // 2)]
    with pytest.raises(HostlerError):
        await puller.pull(retries=0)
    with puller.leftovers[0].open("r+b") as partial:
        partial.write(b"altered")
    puller.server.always = None
    await puller.pull(resume=True)
    assert puller.offsets[-1] == 0
    assert puller.final.read_bytes() == DATA


async def test_K2_everything_had_arrived_before_the_crash_and_nothing_is_asked_again(puller: Puller) -> None:
    puller.final.parent.mkdir(parents=True)
    (puller.final.parent / partial_name(SHA)).write_bytes(DATA)
    source = source_of(puller.server.url("/model.bin"))
    whole = Checkpoint(source=source, etag='"v1"', total=SIZE, marks=(Mark(SIZE, SHA),))
    puller.told.saved.append(whole.to_json())
    await puller.pull(resume=True)
    assert not puller.server.requests
    assert puller.final.read_bytes() == DATA


async def test_many_cuts_are_survived_while_there_is_progress(puller: Puller) -> None:
    puller.server.faults += [cut(FIFTH)] * 4
    await puller.pull(retries=1)
    assert len(puller.offsets) == 5
    assert puller.final.read_bytes() == DATA


async def test_a_body_without_a_length_is_fetched_to_its_end(puller: Puller) -> None:
    puller.server.faults += [header("Content-Length", "")]
    await puller.pull()
    assert puller.final.read_bytes() == DATA


async def test_a_cut_body_without_a_length_is_not_taken_for_its_end(puller: Puller) -> None:
    puller.server.faults += [header("Content-Length", "", then=cut(FIFTH))]
    await puller.pull()
    assert puller.offsets == [0, FIFTH]
    assert puller.final.read_bytes() == DATA


async def test_a_chunked_body_is_decoded_and_may_be_cut(puller: Puller) -> None:
    def broken(reply, asked, blob):
        return cut(FIFTH)(chunked(reply, asked, blob), asked, blob)

    puller.server.faults += [broken]
    await puller.pull()
    assert 0 < puller.offsets[1] < FIFTH
    assert puller.final.read_bytes() == DATA


# A2. The answers that Mender's client is tested against, and what must come of each here: the right
# file, by resuming (True) or from scratch (False). Never a spliced one.
HOSTILE: dict[str, tuple[Fault, bool]] = {
    "basic_resume": (honest, True),
    "early_range_start": (shifted(-5), False),
    "late_range_start": (shifted(5), False),
    "broken_content_length": (header("Content-Length", str(SIZE - FIFTH - 1)), False),
    "missing_content_length": (header("Content-Length", ""), True),
    "no_partial_content_support": (whole_for_part, False),
    "empty_content_range": (content_range("bytes "), False),
    "formatted_but_invalid": (content_range("bytes abc-def/deadbeef"), False),
    "improperly_formatted": (content_range("bytes 5"), False),
    "missing_unit": (content_range("5-6/2"), False),
    "missing_content_range": (content_range(""), False),
    "too_many_ranges": (content_range("bytes 5-6/20 7-8/20"), False),
    "invalid_range": (content_range("bytes 100-200-300/400"), False),
    "changed_total": (content_range("bytes 10000-20000/30000"), False),
    "negative_range": (content_range(f"bytes 20000-10000/{SIZE}"), False),
    "garbled_start": (content_range(f"bytes abc-{SIZE - 1}/{SIZE}"), False),
    "garbled_unit": (content_range(f"abcde {FIFTH}-{SIZE - 1}/{SIZE}"), False),
    "server_down_and_up": (status(503), True),
    "unknown_total": (content_range(f"bytes {FIFTH}-{SIZE - 1}/*"), True),
    "invalid_range_end": (content_range(f"bytes {FIFTH}-20o0/{SIZE}"), False),
    "shorter_range_end": (content_range(f"bytes {FIFTH}-{SIZE - 2}/{SIZE}"), False),
    # beyond that list
    "missing_total": (content_range(f"bytes {FIFTH}-{SIZE - 1}"), False),
    "other_total": (content_range(f"bytes {FIFTH}-{SIZE}/{SIZE + 1}"), False),
    "multipart": (header("Content-Type", "multipart/byteranges; boundary=x"), False),
    "gzip": (gzipped, False),
    "range_not_satisfiable": (status(416), False),
    "no_content": (status(204), False),
    "changed_etag": (header("ETag", '"v2"'), False),
    "no_etag": (header("ETag", ""), False),
    "whole_labelled_as_part": (
        lambda reply, asked, blob: header("Content-Range", f"bytes 0-{SIZE - 1}/{SIZE}")(
            whole_for_part(reply, asked, blob), asked, blob
        ),
        False,
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_A2_a_hostile_answer_to_a_range_never_splices(puller: Puller, case: str) -> None:
    fault, resumes = HOSTILE[case]
    puller.server.faults += [cut(FIFTH), fault]
    outcome = await puller.pull()
    assert puller.final.read_bytes() == DATA
    assert puller.offsets[:2] == [0, FIFTH]
    from_scratch = outcome.outputs["bytes_transferred"] >= SIZE + FIFTH
    assert from_scratch is not resumes


@pytest.mark.parametrize("case", ["early_range_start", "missing_content_range", "gzip", "range_not_satisfiable"])
async def test_A2_a_server_that_breaks_the_rules_twice_is_given_up(puller: Puller, case: str) -> None:
    fault, _ = HOSTILE[case]
    puller.server.faults += [cut(FIFTH), fault, cut(FIFTH), fault, fault]
    with pytest.raises(HostlerError) as caught:
        await puller.pull()
    assert caught.value.code in ("bad_range", "bad_response")
    assert not puller.final.exists()
    assert not puller.leftovers


async def test_A2_a_server_that_stays_down_leaves_what_can_be_resumed(puller: Puller) -> None:
    puller.server.faults += [cut(FIFTH)]
    puller.server.always = status(503)
    puller.server.faults += [status(503)] * 3
    with pytest.raises(HostlerError) as caught:
        await puller.pull()
    assert caught.value.code == "source_unreachable"
    assert not puller.final.exists()
    assert puller.leftovers[0].stat().st_size == FIFTH


async def test_A1_an_object_that_changed_is_fetched_anew(puller: Puller) -> None:
    new = bytes(reversed(DATA))

    def replaced(reply, asked, blob):
        puller.server.blobs["/model.bin"] = Blob(new, '"v2"', "Sat, 21 Nov 2026 08:00:00 GMT")
        return cut(FIFTH)(reply, asked, blob)

    puller.server.faults += [replaced]
    await puller.pull(sha256=hashlib.sha256(new).hexdigest())
    assert puller.offsets == [0, FIFTH]
    assert puller.final.read_bytes() == new


async def test_A1_other_bytes_under_the_same_tag_are_a_digest_mismatch(puller: Puller) -> None:
    puller.server.faults += [cut(FIFTH), other_bytes(bytes(reversed(DATA)))]
    with pytest.raises(HostlerError) as caught:
        await puller.pull()
    assert caught.value.code == "digest_mismatch"
    assert not puller.final.exists()
    assert not puller.leftovers


async def test_A3_right_size_wrong_bytes_is_refused_and_not_reused(puller: Puller) -> None:
    flipped = bytes([DATA[0] ^ 1]) + DATA[1:]
    puller.server.faults += [other_bytes(flipped)]
    with pytest.raises(HostlerError) as caught:
        await puller.pull()
    assert caught.value.code == "digest_mismatch"
    assert not puller.final.exists()
    assert not puller.leftovers
    await puller.pull(resume=True)
    assert puller.offsets == [0, 0]
    assert puller.final.read_bytes() == DATA


async def test_AR_04_a_wrong_blob_leaves_the_old_file_alone(puller: Puller) -> None:
    puller.final.parent.mkdir(parents=True)
    puller.final.write_bytes(b"old and working")
    puller.server.faults += [other_bytes(b"x" * SIZE)]
    with pytest.raises(HostlerError):
        await puller.pull()
    assert puller.final.read_bytes() == b"old and working"


async def test_without_a_validator_nothing_is_continued(puller: Puller) -> None:
    puller.server.blobs["/model.bin"] = Blob(DATA, etag="", last_modified="")
    puller.server.faults += [cut(FIFTH)]
    await puller.pull()
    assert puller.offsets == [0, 0]
    assert puller.final.read_bytes() == DATA


async def test_SK_02_probe_tells_the_truth_at_every_point(puller: Puller) -> None:
    assert (await KIND.probe(puller.context())).truth is Truth.NOT_DONE
    puller.server.faults += [cut(FIFTH)]
    puller.server.always = status(503)
    with pytest.raises(HostlerError):
        await puller.pull(retries=0)
    assert (await KIND.probe(puller.context(resume=True))).truth is Truth.NOT_DONE
    puller.server.always = None
    await puller.pull(resume=True)
    probe = await KIND.probe(puller.context(resume=True))
    assert probe.truth is Truth.DONE
    assert probe.outcome is not None
    assert probe.outcome.outputs["size_bytes"] == SIZE


async def test_plan_touches_nothing_and_asks_nobody(puller: Puller) -> None:
    plan = await KIND.plan(puller.context(size_bytes=SIZE))
    (change,) = plan.changes
    assert (change.action, change.target, change.bytes) == ("fetch", "/srv/models/model.bin", SIZE)
    assert not puller.server.requests
    assert not puller.final.parent.exists()
    await puller.pull()
    assert (await KIND.plan(puller.context())).changes[0].action == "keep"
    puller.final.write_bytes(b"other")
    assert (await KIND.plan(puller.context())).changes[0].action == "replace"


async def test_a_resumed_transfer_has_the_plan_that_was_approved(puller: Puller) -> None:
    before = (await KIND.plan(puller.context())).digest()
    puller.server.faults += [cut(FIFTH)]
    puller.server.always = status(503)
    with pytest.raises(HostlerError):
        await puller.pull(retries=0)
    assert (await KIND.plan(puller.context(resume=True))).digest() == before


async def test_two_pulls_of_one_path_do_not_mix(puller: Puller) -> None:
    puller.server.faults += [silent]
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_code_of(puller, cancelled=stop))
        while not puller.leftovers:
            await asyncio.sleep(0.01)
        assert await _code_of(puller) == "file_error"
        stop.set()
    assert first.result() == "canceled"


async def _code_of(puller: Puller, **given: object) -> str:
    try:
        await puller.pull(**given)
    except HostlerError as err:
        return err.code
    return ""
