"""A1, A2: every hostile answer to a ranged request that the field's test of resumed downloads knows, one by one.

The 21 names are those of the download-resumer cases of Mender's test suite. What must hold for all of them is one
thing: the file at the final place is the whole right one, or there is none.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from support.blob_server import (
    Blob,
    BlobServer,
    Fault,
    content_range,
    cut,
    header,
    honest,
    other_bytes,
    shifted,
    status,
    whole_for_part,
)
from support.certs import make_server_certs
from support.pulling import DATA, Puller

SIZE = len(DATA)
FIFTH = SIZE // 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    with BlobServer(make_server_certs(tmp_path_factory.mktemp("certs"))) as started:
        yield started


@pytest.fixture
def puller(tmp_path: Path, server: BlobServer) -> Puller:
    server.faults, server.always, server.requests = [], None, []
    return Puller(tmp_path, server)


async def end_of(puller: Puller) -> str:
    """The code of the error that a pull ended with, "" for none."""
    try:
        await puller.pull()
    except HostlerError as err:
        return err.code
    return ""


def last_is(wrong: int) -> Fault:
    return lambda reply, asked, blob: header(
        "Content-Range",
        f"bytes {asked.offset}-{wrong - 1}/{wrong}",
        header("Content-Length", str(wrong - asked.offset)),
    )(reply, asked, blob)


def ranged(text: str) -> Fault:
    """`{at}` is where the request wanted to start."""
    return lambda reply, asked, blob: content_range(text.format(at=asked.offset))(reply, asked, blob)


# name: what the answers to ranged requests are. The first request is answered honestly and cut after a fifth.
HOSTILE: dict[str, Fault] = {
    "BasicDownloadAndResume": honest,
    "EarlyRangeStart": shifted(-5),
    "LateRangeStart": shifted(5),
    "BrokenContentLength": last_is(SIZE - 1),
    "MissingContentLength": ranged(f"bytes {{at}}-{SIZE - 1}"),
    "NoPartialContentSupport": whole_for_part,
    "EmptyContentRange": content_range("bytes "),
    "FormattedButInvalidContentRange": content_range("bytes abc-def/deadbeef"),
    "ImproperlyFormattedContentRange": content_range("bytes 5"),
    "MissingBytesContentRange": content_range("5-6/2"),
    "MissingContentRange": content_range(""),
    "TooManyContentRanges": content_range("bytes 5-6/20 7-8/20"),
    "InvalidContentRange": content_range("bytes 100-200-300/400"),
    "ChangeContentLength": content_range("bytes 10000-20000/30000"),
    "NegativeRange": content_range(f"bytes 20000-10000/{SIZE}"),
    "GarbledContentStart": content_range(f"bytes abc-{SIZE - 1}/{SIZE}"),
    "GarbledBytes": ranged(f"abcde {{at}}-{SIZE - 1}/{SIZE}"),
    "ServerDownAndUp": status(503),
    "ServerDown": status(503),
    "UnknownContentLength": ranged(f"bytes {{at}}-{SIZE - 1}/*"),
    "InvalidEndRange": content_range(f"bytes 1000-20o0/{SIZE}"),
}
ONCE = {"ServerDownAndUp"}  # then the server is itself again
# Answers from which a right file can be had at once or after starting over, because the whole is there to be asked for.
ENDS_WELL = {name for name in HOSTILE if name != "ServerDown"}


def test_there_are_21_of_them() -> None:
    assert len(HOSTILE) == 21


@pytest.mark.parametrize("name", HOSTILE)
async def test_A2_each_hostile_answer_is_told_apart_and_never_spliced(puller: Puller, name: str) -> None:
    fault = HOSTILE[name]
    puller.server.faults += [cut(FIFTH), fault]
    if name not in ONCE:
        puller.server.always = lambda reply, asked, blob: (
            fault(reply, asked, blob) if asked.offset or name == "ServerDown" else honest(reply, asked, blob)
        )
    code = await end_of(puller)
    assert code == ("" if name in ENDS_WELL else "source_unreachable")
    if code:
        assert not puller.final.exists()
    else:
        assert puller.final.read_bytes() == DATA
        assert not puller.leftovers
    resumed = [offset for offset in puller.offsets if offset]
    assert set(resumed) <= {FIFTH}, "a lie about the range moved the offset"


@pytest.mark.parametrize("name", [name for name, fault in HOSTILE.items() if fault is not honest and name not in ONCE])
async def test_A2_a_server_that_lies_about_the_whole_as_well_gets_no_file(puller: Puller, name: str) -> None:
    """The same answers, but each whole body is another object's: only the digest is left to tell."""
    other = bytes(reversed(DATA))
    fault = HOSTILE[name]
    puller.server.faults += [cut(FIFTH)]
    puller.server.always = lambda reply, asked, blob: (
        fault if asked.offset or name == "ServerDown" else other_bytes(other)
    )(reply, asked, blob)
    code = await end_of(puller)
    if code:
        assert code in {"digest_mismatch", "bad_range", "source_unreachable", "size_mismatch", "bad_response"}
        assert not puller.final.exists()
    else:
        assert puller.final.read_bytes() == DATA


@pytest.mark.parametrize("same_tag", [False, True], ids=["another-etag", "the-same-etag"])
async def test_A1_an_object_that_changed_under_us_is_never_spliced(puller: Puller, same_tag: bool) -> None:
    changed = bytes(reversed(DATA))
    puller.server.faults += [cut(FIFTH)]
    puller.server.blobs["/model.bin"] = Blob(DATA)

    def swap(reply, asked, blob):
        puller.server.blobs["/model.bin"] = Blob(changed, etag='"v1"' if same_tag else '"v2"')
        return cut(FIFTH)(reply, asked, blob)

    puller.server.faults[:] = [swap]
    with pytest.raises(HostlerError) as failed:
        await puller.pull()
    assert failed.value.code == "digest_mismatch"
    assert not puller.final.exists()
    assert not puller.leftovers


async def test_AR_04_a_wrong_part_is_found_on_the_way_by_its_own_digest(puller: Puller) -> None:
    from hashlib import sha256

    size = 131_072
    parts = [sha256(DATA[at : at + size]).hexdigest() for at in range(0, SIZE - size + 1, size)]
    from hostler.catalog.params.artifact import Chunks

    await puller.pull(chunks=Chunks(size_bytes=size, sha256=tuple(parts)))
    assert puller.final.read_bytes() == DATA
    puller.final.unlink()
    parts[2] = "0" * 64
    with pytest.raises(HostlerError) as failed:
        await puller.pull(chunks=Chunks(size_bytes=size, sha256=tuple(parts)))
    assert (failed.value.code, "part 2" in failed.value.message) == ("digest_mismatch", True), failed.value.message
    assert not puller.final.exists()
