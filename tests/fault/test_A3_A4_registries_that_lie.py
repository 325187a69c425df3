"""A3, A4: a registry that serves other documents, other blobs, other places; and what stands afterwards: nothing."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.wire.task import Policy
from support.blob_server import Blob, BlobServer, Reply, header, redirect
from support.certs import make_server_certs
from support.pulling_oci import OciPuller

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
BODY = b"weights" * 5000


def described(data: bytes, media_type: str = "application/octet-stream", **more: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)} | more


def manifest(*layers: dict[str, Any], **more: Any) -> bytes:
    config = described(b"{}", "application/vnd.oci.empty.v1+json")
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    return json.dumps(document | more).encode()


def titled(data: bytes, title: str = "f") -> dict[str, Any]:
    return described(data, annotations={"org.opencontainers.image.title": title})


GOOD = manifest(titled(BODY))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    with BlobServer(make_server_certs(tmp_path_factory.mktemp("certs"))) as started:
        yield started


class Lying:
    """One repository of a server that says what the test wants, and a node."""

    def __init__(self, root: Path, server: BlobServer) -> None:
        server.blobs.clear()
        server.faults, server.always, server.requests = [], None, []
        self.server, self.puller = server, OciPuller(root, server.certs.ca)
        self.base = "/v2/team/a"
        self.serve(b"{}", BODY)

    def serve(self, *blobs: bytes) -> None:
        for data in blobs:
            self.server.blobs[f"{self.base}/blobs/sha256:{sha256(data).hexdigest()}"] = Blob(data, etag='"b"')

    def document(self, data: bytes, under: bytes | None = None) -> str:
        """Serves a document, under its own digest or another's; the reference."""
        digest = f"sha256:{sha256(data if under is None else under).hexdigest()}"
        self.server.blobs[f"{self.base}/manifests/{digest}"] = Blob(data, etag="")
        return f"localhost:{self.server.port}/team/a@{digest}"

    async def failure(self, reference: str, **given: Any) -> str:
        given.setdefault("place", "files")
        with pytest.raises(HostlerError) as failed:
            await self.puller.pull(reference, **given)
        assert not self.puller.place.exists()
        return failed.value.code


@pytest.fixture
def lying(tmp_path: Path, server: BlobServer) -> Lying:
    return Lying(tmp_path, server)


async def test_the_honest_registry_is_believed(lying: Lying) -> None:
    await lying.puller.pull(lying.document(GOOD), place="files")
    assert (lying.puller.place / "f").read_bytes() == BODY


async def test_A4_another_manifest_under_the_digest_is_a_digest_mismatch(lying: Lying) -> None:
    assert await lying.failure(lying.document(manifest(titled(b"other")), under=GOOD)) == "digest_mismatch"


async def test_A4_an_index_whose_manifest_is_another_one_is_a_digest_mismatch(lying: Lying) -> None:
    platform = {"os": "linux", "architecture": "amd64"}
    entry = described(GOOD, MANIFEST, platform=platform)
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
    reference = lying.document(index)
    lying.document(manifest(titled(b"other")), under=GOOD)
    assert await lying.failure(reference, platform="linux/amd64") == "digest_mismatch"
    assert await lying.failure(reference, platform="linux/arm64") == "incompatible"


async def test_A4_an_index_that_names_an_index_and_a_document_that_is_both_are_refused(lying: Lying) -> None:
    platform = {"os": "linux", "architecture": "amd64"}
    inner = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
    lying.document(inner)
    outer = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [described(inner, MANIFEST, platform=platform)]}
    assert await lying.failure(lying.document(json.dumps(outer).encode()), platform="linux/amd64") == "bad_response"
    assert await lying.failure(lying.document(manifest(titled(BODY), manifests=[], mediaType=INDEX))) == "bad_response"


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"null",
        b"[]",
        b"{" * 100_000,
        manifest(titled(BODY), schemaVersion=1),
        manifest(titled(BODY), mediaType="text/html"),
        manifest(titled(BODY) | {"digest": "sha512:00"}),
        manifest(titled(BODY) | {"digest": "sha256:" + "../" * 20}),
        manifest(titled(BODY) | {"size": -1}),
        manifest(*[titled(BODY, str(n)) for n in range(1100)]),
        b'{"a": "' + b"x" * 5_000_000 + b'"}',
    ],
    ids="empty null list deep schema1 html sha512 path negative many long".split(),  # noqa: SIM905
)
async def test_A4_a_document_that_is_no_manifest_is_refused(lying: Lying, hostile: bytes) -> None:
    assert await lying.failure(lying.document(hostile)) in {"bad_response", "too_large"}


async def test_A3_a_blob_with_other_bytes_of_the_right_size_is_refused_and_not_kept(lying: Lying) -> None:
    path = f"{lying.base}/blobs/sha256:{sha256(BODY).hexdigest()}"
    lying.server.blobs[path] = Blob(bytes(reversed(BODY)), etag='"b"')
    reference = lying.document(GOOD)
    assert await lying.failure(reference) == "digest_mismatch"
    assert not lying.puller.leftovers
    lying.serve(BODY)
    await lying.puller.pull(reference, place="files")
    assert (lying.puller.place / "f").read_bytes() == BODY


async def test_A4_a_manifest_that_lies_about_a_size_is_refused(lying: Lying) -> None:
    assert await lying.failure(lying.document(manifest(titled(BODY) | {"size": 10}))) == "too_large"
    assert await lying.failure(lying.document(manifest(titled(BODY) | {"size": 10**15}))) == "disk_full"


@pytest.mark.parametrize("where", ["https://other.example/blob", "http://localhost/blob", "https://169.254.169.254/"])
@pytest.mark.parametrize("what", ["manifests", "blobs"])
async def test_A4_a_redirect_leaves_the_allowed_sources_never(lying: Lying, where: str, what: str) -> None:
    reference = lying.document(GOOD)
    policy = Policy(allowed_artifact_sources=(f"https://localhost:{lying.server.port}/v2/team",))
    lying.server.always = lambda reply, asked, blob: (
        redirect(where)(reply, asked, blob) if f"/{what}/" in asked.path else reply
    )
    assert await lying.failure(reference, policy=policy) == "source_denied"


async def test_A4_an_internal_address_is_not_asked_where_the_node_keeps_off_them(lying: Lying) -> None:
    lying.puller.settings = msgspec.structs.replace(lying.puller.settings, allow_private=False)
    assert await lying.failure(lying.document(GOOD)) == "source_denied"
    assert lying.server.requests == []


async def test_A4_a_token_server_inside_is_not_asked_without_being_allowed(lying: Lying) -> None:
    challenge = 'Bearer realm="https://169.254.169.254/latest/meta-data",service="x",scope="repository:team/a:push"'
    lying.server.always = lambda reply, asked, blob: header("WWW-Authenticate", challenge)(
        Reply(401, {"Content-Length": "0"}), asked, blob
    )
    policy = Policy(allowed_artifact_sources=(f"https://localhost:{lying.server.port}",))
    assert await lying.failure(lying.document(GOOD), policy=policy) == "source_denied"


HOSTILE_TITLES = (
    "../f",
    "/etc/f",
    "a/../../f",
    "a//f",
    "",
    ".",
    "a\\f",
    "a\nf",
    ".hostler-placed.json",
    "x" * 5000,
    "f/../f",
)


@pytest.mark.parametrize("title", HOSTILE_TITLES)
async def test_A6_a_hostile_title_puts_no_file_anywhere(lying: Lying, title: str) -> None:
    code = await lying.failure(lying.document(manifest(titled(BODY, title))))
    assert code == ("bad_response" if title == "" else "unsafe_archive")
    assert [p for p in lying.puller.root.rglob("*") if p.is_file() and BODY[:20] in p.read_bytes()[:20]] == []


@pytest.mark.parametrize("titles", [("f", "f"), ("f", "F"), ("\u00e9", "e\u0301"), ("a", "a/b")])
async def test_A6_titles_that_could_be_one_name_are_refused(lying: Lying, titles: tuple[str, str]) -> None:
    assert await lying.failure(lying.document(manifest(*(titled(BODY, t) for t in titles)))) == "unsafe_archive"
