"""CR-07, X25: sessions and addresses that read one prefix of a bucket."""

import datetime as dt
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from hostler.catalog import credentials as types
from hostler.control.credentials import aws, config, sigv4
from support.certs import ServerCerts
from support.issuers import DEADLINE, ask, common, failure, form
from support.tls_server import TlsServer

KEYS = sigv4.Keys(access_key_id="AKIDEXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
STS = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s3cr</SecretAccessKey><SessionToken>tok</SessionToken>
<Expiration>2027-01-15T08:15:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@pytest.fixture
def sts(tmp_path: Path, server: TlsServer, certs: ServerCerts) -> aws.AwsSts:
    more = {"sts_url": server.url, "region": "eu-west-1", "role_arn": "arn:aws:iam::1:role/r", "ca_file": str(certs.ca)}
    return aws.AwsSts(config.AwsStsConfig(**common(tmp_path, msgspec.json.encode(KEYS), **more)))


async def test_the_session_may_read_what_was_asked_for_until_the_task_ends_and_no_more(
    sts: aws.AwsSts, server: TlsServer
) -> None:
    server.answer = lambda _: (200, STS.encode())
    made = await sts.mint(ask("s3_read"))
    assert made.material == types.S3Read(
        access_key_id="ASIA1", secret_access_key="s3cr", session_token="tok", region="eu-west-1",
        endpoint="https://s3.test",
    )  # fmt: skip
    assert made.expires_at_ms == int(dt.datetime(2027, 1, 15, 8, 15, tzinfo=dt.UTC).timestamp() * 1000)
    sent = form(server.asked[0])
    assert (sent["Action"], sent["DurationSeconds"]) == ("AssumeRole", "900")  # the least that STS takes
    read, listing = msgspec.json.decode(sent["Policy"])["Statement"]
    until = {"aws:CurrentTime": dt.datetime.fromtimestamp(DEADLINE / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    assert (read["Action"], read["Resource"]) == (["s3:GetObject"], ["arn:aws:s3:::models/llm/v1/*"])
    assert read["Condition"]["DateLessThan"] == listing["Condition"]["DateLessThan"] == until
    assert listing["Condition"]["StringLike"] == {"s3:prefix": ["llm/v1/*"]}


@pytest.mark.parametrize(
    ("prefix", "opens"), [("", "*"), ("a/", "a/*"), ("a/model.bin", "a/model.bin"), ("model", "model")]
)
def test_a_prefix_without_a_slash_is_one_object(prefix: str, opens: str) -> None:
    intent = types.S3Intent(endpoint="https://s3.test", bucket="models", prefix=prefix)
    statement = aws.session_policy(intent, DEADLINE)["Statement"][0]
    assert statement["Resource"] == [f"arn:aws:s3:::models/{opens}"]


@pytest.mark.parametrize(
    "answer",
    [
        b"<a>",
        STS.replace("tok", "").encode(),
        STS.replace("2027-01-15T08:15:00Z", "soon").encode(),
        b'<!DOCTYPE a [<!ENTITY x "y">]>' + STS.encode(),
    ],
)
async def test_an_sts_that_answers_amiss(sts: aws.AwsSts, server: TlsServer, answer: bytes) -> None:
    server.answer = lambda _: (200, answer)
    await failure(sts, ask("s3_read"))


def test_signatures_are_those_of_botocore() -> None:
    from botocore.auth import S3SigV4QueryAuth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    now = dt.datetime.now(dt.UTC)
    theirs = Credentials(KEYS.access_key_id, KEYS.secret_access_key)
    request = AWSRequest("POST", "https://sts.test/", {"content-type": "text/plain"}, b"Action=x")
    SigV4Auth(theirs, "sts", "eu-west-1").add_auth(request)
    stamp = dt.datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    ours = sigv4.authorization(
        "POST", "https://sts.test/", {"content-type": "text/plain"}, b"Action=x", KEYS,
        sigv4.Where("eu-west-1", "sts"), int(stamp.timestamp() * 1000),
    )  # fmt: skip
    assert ours["authorization"] == request.headers["Authorization"]
    assert abs(stamp - now) < dt.timedelta(minutes=5)

    get = AWSRequest("GET", "https://s3.test/models/llm/a%20b%2Bc%3Dd.bin")  # as its client encodes a key
    S3SigV4QueryAuth(theirs, "s3", "eu-west-1", 600).add_auth(get)
    query = parse_qs(urlsplit(get.url).query)
    stamp = dt.datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    where = sigv4.Where("eu-west-1", "s3")
    at_ms = int(stamp.timestamp() * 1000)
    presigned = sigv4.presigned("https://s3.test/models/llm/a%20b+c=d.bin", 600, KEYS, where, at_ms)
    assert parse_qs(urlsplit(presigned).query) == query
    assert urlsplit(presigned).path == urlsplit(get.url).path


async def test_X25_a_presigned_url_ends_with_the_task(tmp_path: Path) -> None:
    minter = aws.S3Presign(config.S3PresignConfig(**common(tmp_path, msgspec.json.encode(KEYS), region="eu-west-1")))
    made = await minter.mint(ask("https_signed_url"))
    assert isinstance(made.material, types.SignedUrl)
    assert made.material.url.startswith("https://s3.test/models/llm/v1/a.bin?")
    assert parse_qs(urlsplit(made.material.url).query)["X-Amz-Expires"] == ["600"]
    assert made.expires_at_ms == DEADLINE
    assert KEYS.secret_access_key not in made.material.url


async def test_a_secret_file_that_is_none_is_not_quoted(tmp_path: Path) -> None:
    minter = aws.S3Presign(config.S3PresignConfig(**common(tmp_path, region="r")))
    await failure(minter, ask("https_signed_url"), "invalid_config")
