"""AR-03, AR-04: a blob out of moto's S3 over TLS, cut and resumed; botocore is the referee of the signature."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.agent.steps.test_artifact_sources import pull

from hostler.agent.fetch.sigv4 import signed_headers
from support.blob_server import BlobServer
from support.certs import ServerCerts, make_server_certs
from support.moto_s3 import moto_s3, put
from support.pulling import DATA, Puller

pytestmark = pytest.mark.real
KEYS = {"access_key_id": "AKIAOWNKEY", "secret_access_key": "own-secret-key", "session_token": ""}


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def store(certs: ServerCerts) -> Iterator[str]:
    with moto_s3(certs) as address:
        yield address


async def test_AR_03_a_real_transfer_from_s3_goes_on_where_it_stood(
    tmp_path: Path, certs: ServerCerts, store: str
) -> None:
    put(store, certs, "/models", b"")
    put(store, certs, "/models/v1/model.bin", DATA)
    source = {"type": "s3", "endpoint": store, "bucket": "models", "key": "v1/model.bin", "region": "us-east-1"}
    material = KEYS | {"region": "us-east-1", "endpoint": store}
    with BlobServer(certs) as unused:
        puller = Puller(tmp_path, unused)
        outcome = await pull(puller, source, material)
        assert outcome.outputs["bytes_transferred"] == len(DATA)
        assert puller.final.read_bytes() == DATA
        puller.final.unlink()
        half = len(DATA) // 2
        checkpoint = _stopped_at(puller, f"{store}/models/v1/model.bin", half, store, certs)
        puller.told.saved.append(checkpoint)
        outcome = await pull(puller, source, material, resume=True)
        assert outcome.outputs["bytes_transferred"] == len(DATA) - half
        assert puller.final.read_bytes() == DATA


def _stopped_at(puller: Puller, url: str, half: int, store: str, certs: ServerCerts) -> dict[str, object]:
    """What an agent that was killed in the middle has left: a partial file, and its checkpoint."""
    import hashlib

    from hostler.agent.fetch.checkpoint import Checkpoint, Mark, source_of
    from hostler.agent.fetch.partial import partial_name
    from support.pulling import SHA

    (puller.final.parent / partial_name(SHA)).write_bytes(DATA[:half])
    mark = Mark(half, hashlib.sha256(DATA[:half]).hexdigest())
    etag = f'"{hashlib.md5(DATA, usedforsecurity=False).hexdigest()}"'
    return Checkpoint(source=source_of(url), etag=etag, total=len(DATA), marks=(mark,)).to_json()


@pytest.mark.parametrize("path", ["/models/v1/model.bin", "/models/a=1/b-c_d.e"])
@pytest.mark.parametrize("token", ["", "session-token"])
def test_botocore_signs_the_same_request_the_same_way(path: str, token: str) -> None:
    import datetime as dt
    from unittest import mock
    from urllib.parse import quote

    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    at = dt.datetime(2026, 11, 22, 4, 0, 0, tzinfo=dt.UTC)
    # its S3 signer takes the path as a client has encoded it already; a store encodes what it was sent by itself
    request = AWSRequest(method="GET", url=f"https://store.example:9000{quote(path, safe='/-_.~')}")
    request.context["payload_signing_enabled"] = True
    with mock.patch("botocore.auth.get_current_datetime", return_value=at.replace(tzinfo=None), create=True):
        S3SigV4Auth(Credentials("AK", "SK", token or None), "s3", "eu-west-1").add_auth(request)
    mine = signed_headers(
        host="store.example:9000",
        path=path,
        region="eu-west-1",
        access_key="AK",
        secret_key="SK",
        session_token=token,
        at_ms=int(at.timestamp() * 1000),
    )
    theirs = request.headers
    assert mine["x-amz-date"] == theirs["X-Amz-Date"]
    assert mine["Authorization"].split("Signature=")[0] == theirs["Authorization"].split("Signature=")[0]
    assert mine["Authorization"] == theirs["Authorization"]
