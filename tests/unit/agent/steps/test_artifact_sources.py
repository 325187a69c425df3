"""AR-03, AR-09: what each type of source asks for, with what, and whom it shows that to."""

import asyncio
import dataclasses
import json
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.fetch.sigv4 import signed_headers
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.params.artifact import PullBlob
from hostler.catalog.sources import source_url
from support.blob_server import Blob, BlobServer, cut, redirect, status
from support.certs import make_server_certs
from support.pulling import DATA, NAME, SHA, Puller
from support.steps import context_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_canary_" + "7" * 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    with BlobServer(make_server_certs(tmp_path_factory.mktemp("certs"))) as started:
        yield started


@pytest.fixture
def puller(tmp_path: Path, server: BlobServer) -> Puller:
    server.faults, server.always, server.requests, server.honours_if_range = [], None, [], True
    return Puller(tmp_path, server)


async def pull(puller: Puller, source: dict[str, Any], material: dict[str, Any] | None = None, **params: Any) -> Any:
    import msgspec

    from hostler.agent.steps.artifact_pull_blob import KIND

    table = SecretTable(Deadline.after(30, SystemClock()), SystemClock())
    handle = ""
    if material is not None:
        secret = Secret.take(bytearray(json.dumps(material).encode()))
        handle = table.put(secret, steps=frozenset({"step"}), lifetime_s=30)
    resume = params.pop("resume", False)
    made = {"source": source, "credential": handle, "sha256": SHA, "path": NAME, "retries": 3} | params
    context = context_of(
        msgspec.convert(made, PullBlob),
        puller.context().host,
        puller.told,
        secrets=table,
        checkpoint=puller.told.checkpoint if resume else None,
    )
    try:
        return await KIND.apply(context)
    finally:
        said = json.dumps([puller.told.lines, puller.told.saved])
        for value in (material or {}).values():
            assert len(value) < 12 or value.startswith("https://localhost") or value not in said
        assert "X-Amz-Signature" not in said


async def failure(*given: Any, **params: Any) -> str:
    with pytest.raises(HostlerError) as failed:
        await pull(*given, **params)
    return failed.value.code


def origin(puller: Puller) -> str:
    return puller.server.url("").rstrip("/")


def s3(puller: Puller, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    source = {"type": "s3", "endpoint": origin(puller), "bucket": "models", "key": "v1/m=1/model.bin"} | more
    keys = {
        "access_key_id": "AKIDEXAMPLE",
        "secret_access_key": "canary-secret-key-0123",
        "session_token": "tok-0123456789ab",
    }
    puller.server.blobs["/models/v1/m=1/model.bin"] = Blob(DATA)
    return source, keys | {"region": "eu-central-1", "endpoint": origin(puller)}


async def test_AR_03_s3_is_asked_with_a_signature_for_each_request(puller: Puller) -> None:
    puller.server.faults += [cut(len(DATA) // 2)]
    outcome = await pull(puller, *s3(puller))
    assert puller.final.read_bytes() == DATA
    first, second = (asked.headers for asked in puller.server.requests)
    for headers in (first, second):
        assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
        assert "/eu-central-1/s3/aws4_request" in headers["authorization"]
        assert headers["x-amz-security-token"] == "tok-0123456789ab"
    assert second["range"] == f"bytes={len(DATA) // 2}-"
    (taken,) = outcome.artifacts
    assert (taken.kind, taken.sha256, taken.uri) == ("input", SHA, f"{origin(puller)}/models/v1/m=1/model.bin")


async def test_AR_09_a_credential_for_another_store_or_region_is_not_shown(puller: Puller) -> None:
    source, keys = s3(puller)
    assert await failure(puller, source, keys | {"endpoint": "https://other.example"}) == "credential_mismatch"
    assert await failure(puller, source | {"region": "us-east-1"}, keys) == "credential_mismatch"
    assert await failure(puller, source, {"token": TOKEN}) == "credential_mismatch"
    assert puller.server.requests == []


async def test_AR_03_a_public_object_needs_no_credential(puller: Puller) -> None:
    source, _ = s3(puller)
    await pull(puller, source)
    assert "authorization" not in puller.server.requests[0].headers


async def test_AR_03_gcs_and_a_hub_are_asked_with_a_bearer_token(puller: Puller) -> None:
    puller.server.blobs["/bucket-a/m.bin"] = Blob(DATA)
    gcs = {"type": "gcs", "bucket": "bucket-a", "object": "m.bin", "endpoint": origin(puller)}
    await pull(puller, gcs, {"token": "ya29.canary-0123456789"})
    assert puller.server.requests[-1].headers["authorization"] == "Bearer ya29.canary-0123456789"
    puller.final.unlink()
    where = f"/org/model/resolve/{COMMIT}/w/model.bin"
    puller.server.blobs[where] = Blob(DATA)
    hub = {"type": "huggingface", "repository": "org/model", "revision": COMMIT, "path": "w/model.bin"}
    await pull(puller, hub | {"endpoint": origin(puller)}, {"token": TOKEN})
    assert puller.server.requests[-1].path == where
    assert puller.server.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"


async def test_AZ_09_a_redirect_leads_nowhere_that_this_node_forbids(puller: Puller) -> None:
    from hostler.agent.steps.artifact_pull_blob import KIND

    puller.server.blobs["/elsewhere"] = Blob(DATA)
    puller.server.faults += [redirect(puller.server.url("/elsewhere"))]
    context = dataclasses.replace(puller.context(), local_source=lambda url: "elsewhere" not in url)
    with pytest.raises(HostlerError) as failed:
        await KIND.apply(context)
    assert failed.value.code == "source_denied"
    assert [asked.path for asked in puller.server.requests] == ["/model.bin"]


async def test_AR_03_a_redirect_to_another_host_is_not_shown_the_token(puller: Puller) -> None:
    hub = {"type": "huggingface", "repository": "org/model", "revision": COMMIT, "path": "m.bin"}
    where = f"/org/model/resolve/{COMMIT}/m.bin"
    puller.server.blobs[where] = puller.server.blobs["/cdn.bin"] = Blob(DATA)
    elsewhere = f"https://127.0.0.1:{puller.server.port}/cdn.bin"
    puller.server.faults += [redirect(elsewhere)]
    await pull(puller, hub | {"endpoint": origin(puller)}, {"token": TOKEN})
    first, second = puller.server.requests
    assert first.headers["authorization"] == f"Bearer {TOKEN}"
    assert "authorization" not in second.headers
    assert puller.final.read_bytes() == DATA


async def test_X25_a_signed_url_resumes_under_another_signature_and_is_never_said(puller: Puller) -> None:
    base = puller.server.url("/model.bin")
    source = {"type": "https_signed", "base": base}
    puller.server.always = status(503)
    puller.server.faults += [cut(len(DATA) // 2)]
    signed = f"{base}?X-Amz-Signature=canary0123456789"
    assert await failure(puller, source, {"url": signed}, retries=0) == "source_unreachable"
    puller.server.always = None
    await pull(puller, source, {"url": f"{base}?X-Amz-Signature=another0123456"}, resume=True)
    assert puller.server.requests[-1].path == "/model.bin?X-Amz-Signature=another0123456"
    assert puller.offsets[-1] == len(DATA) // 2
    assert puller.final.read_bytes() == DATA


async def test_X25_a_signed_url_for_something_else_is_refused(puller: Puller) -> None:
    source = {"type": "https_signed", "base": puller.server.url("/model.bin")}
    for url in (puller.server.url("/other.bin?s=1"), "https://evil.example/model.bin?s=1", "not a url"):
        assert await failure(puller, source, {"url": url}) == "credential_mismatch"
    assert await failure(puller, source) == "credential_mismatch"
    assert puller.server.requests == []


async def test_a_blob_has_a_url_or_a_source(puller: Puller) -> None:
    source, _ = s3(puller)
    assert await failure(puller, source, url=puller.server.url("/model.bin")) == "source_denied"
    with pytest.raises(HostlerError):
        await puller.pull(url="")


def test_AR_06_sources_come_to_the_urls_that_lists_judge() -> None:
    assert (
        source_url("source", {"type": "gcs", "bucket": "bkt", "object": "a/b"})
        == "https://storage.googleapis.com/bkt/a/b"
    )
    assert source_url("reference", f"r.example:5000/a/b@sha256:{'0' * 64}") == "https://r.example:5000/v2/a/b/"
    for hostile in ({"type": "s3", "endpoint": "https://e", "bucket": "bkt", "key": "../x"}, {"type": "ftp"}, 5, None):
        with pytest.raises(HostlerError) as failed:
            source_url("source", hostile)
        assert failed.value.code == "source_denied"


def test_the_signature_is_that_of_the_published_algorithm() -> None:
    """Worked out step by step here, by the specification, for one request."""
    import hmac

    headers = signed_headers(
        host="examplebucket.s3.amazonaws.com",
        path="/test.txt",
        region="us-east-1",
        access_key="AKIAIOSFODNN7EXAMPLE",
        secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        session_token="",
        at_ms=1_369_353_600_000,
    )
    empty = sha256(b"").hexdigest()
    request = (
        "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\n"
        f"x-amz-content-sha256:{empty}\nx-amz-date:20130524T000000Z\n\nhost;x-amz-content-sha256;x-amz-date\n{empty}"
    )
    scope = "20130524/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n20130524T000000Z\n{scope}\n{sha256(request.encode()).hexdigest()}"
    key = b"AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    assert headers["Authorization"].endswith(f"Signature={hmac.new(key, text.encode(), 'sha256').hexdigest()}")


async def test_A5_a_bound_on_bytes_a_second_holds(puller: Puller) -> None:
    started = asyncio.get_running_loop().time()
    await puller.pull(max_bytes_per_second=2_000_000)
    assert asyncio.get_running_loop().time() - started >= 0.9 * len(DATA) / 2_000_000
    assert random.Random(11).randbytes(8) == DATA[:8]
