"""CR-07, X25: each minter, against a server that keeps to the issuer's own protocol, and against one that does not."""

import base64
import datetime as dt
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from hostler.base.errors import HostlerError
from hostler.catalog import credentials as types
from hostler.catalog.credentials import intent_of
from hostler.control.credentials import aws, cloudfront, config, files, gcs, kubeadm, outgoing, registry_token, sigv4
from hostler.control.credentials.contract import Ask
from hostler.control.credentials.registry import Minters
from support.certs import ServerCerts, make_server_certs
from support.tls_server import Asked, TlsServer, tls_server

NOW = 1_800_000_000_000
DEADLINE = NOW + 600_000
DIGEST = "sha256:" + "a" * 64
SECRET = "canary-long-lived-secret-0123456789"
INTENTS: dict[str, dict[str, str]] = {
    "oci_pull": {"registry": "https://r.test", "repository": "team/model", "digest": DIGEST},
    "s3_read": {"endpoint": "https://s3.test", "bucket": "models", "prefix": "llm/v1/"},
    "gcs_read": {"bucket": "models", "prefix": "llm/v1/"},
    "hf_token": {"repository": "team/model"},
    "cluster_join_token": {"cluster": "east"},
    "https_signed_url": {"url": "https://s3.test/models/llm/v1/a.bin"},
}


def ask(type_: str, **changes: Any) -> Ask:
    values: dict[str, Any] = {
        "credential_type": type_,
        "intent": intent_of(type_, INTENTS[type_] | changes.pop("intent", {})),
        "org_id": "acme",
        "project_id": "train",
        "node_id": "nod_1",
        "task_id": "tsk_1",
        "now_ms": NOW,
        "deadline_ms": DEADLINE,
    }
    return Ask(**(values | changes))


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def server(certs: ServerCerts) -> Iterator[TlsServer]:
    with tls_server(certs, lambda _: (500, {})) as made:
        yield made


def private(path: Path, data: bytes | str) -> str:
    path.touch(0o600)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def common(home: Path, secret: bytes | str = SECRET, **more: Any) -> dict[str, Any]:
    scope = config.Scope(org="acme", project="train", sources=("https://r.test/",), clusters=("east",))
    return {"name": "one", "secret_file": private(home / "secret", secret), "scopes": (scope,)} | more


def form(asked: Asked) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(asked.body.decode(), strict_parsing=True).items()}


async def failure(minter: Any, order: Ask, code: str = "minter_failed") -> str:
    with pytest.raises(HostlerError) as caught:
        await minter.mint(order)
    assert caught.value.code == code
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.message


# -- OCI registry ----------------------------------------------------------------------------------


def jwt(*access: tuple[str, str, list[str]]) -> str:
    claims = {"access": [{"type": t, "name": n, "actions": a} for t, n, a in access], "exp": 1}
    part = base64.urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
    return f"e30.{part}.c2ln"


@pytest.fixture
def registry(tmp_path: Path, server: TlsServer, certs: ServerCerts) -> registry_token.RegistryToken:
    more = {"token_url": f"{server.url}/token", "service": "r.test", "username": "robot", "ca_file": str(certs.ca)}
    return registry_token.RegistryToken(config.RegistryTokenConfig(**common(tmp_path, f"{SECRET}\n", **more)))


async def test_CR_08_the_registry_is_asked_for_pull_of_one_repository(
    registry: registry_token.RegistryToken, server: TlsServer
) -> None:
    token = jwt(("repository", "team/model", ["pull"]))
    server.answer = lambda _: (200, {"token": token, "expires_in": 300})
    made = await registry.mint(ask("oci_pull"))
    assert made.material == types.OciPull(registry="https://r.test", token=token)
    assert made.expires_at_ms == NOW + 300_000
    (asked,) = server.asked
    assert parse_qs(urlsplit(asked.path).query)["scope"] == ["repository:team/model:pull"]
    assert base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode() == f"robot:{SECRET}"


@pytest.mark.parametrize(
    "access",
    [
        [("repository", "team/model", ["pull", "push"])],
        [("repository", "team/model", ["pull"]), ("repository", "team/other", ["pull"])],
        [("repository", "team/other", ["pull"])],
        [("registry", "catalog", ["*"])],
        [],
    ],
)
async def test_CR_08_a_token_that_says_more_or_nothing_is_not_handed_on(
    registry: registry_token.RegistryToken, server: TlsServer, access: list[Any]
) -> None:
    server.answer = lambda _: (200, {"token": jwt(*access)})
    assert "exactly pull" in await failure(registry, ask("oci_pull"))


@pytest.mark.parametrize(
    "answer", [(401, {}), (200, {}), (200, b"<html>"), (302, {}), (200, {"token": "x", "expires_in": 0}), (200, b"[")]
)
async def test_what_an_issuer_answers_amiss_is_one_plain_error(
    registry: registry_token.RegistryToken, server: TlsServer, answer: Any
) -> None:
    server.answer = lambda _: answer
    await failure(registry, ask("oci_pull"))


async def test_an_answer_without_end_is_cut_off(registry: registry_token.RegistryToken, server: TlsServer) -> None:
    server.answer = lambda _: (200, b"x" * (outgoing.MAX_ANSWER_BYTES + 1))
    assert "more than" in await failure(registry, ask("oci_pull"))


async def test_an_issuer_with_another_ca_is_not_spoken_to(tmp_path: Path, server: TlsServer) -> None:
    other = make_server_certs(tmp_path / "other")
    more = {"token_url": f"{server.url}/token", "service": "r", "username": "robot", "ca_file": str(other.ca)}
    minter = registry_token.RegistryToken(config.RegistryTokenConfig(**common(tmp_path, **more)))
    assert "ConnectError" in await failure(minter, ask("oci_pull"))
    assert server.asked == []


async def test_an_issuer_without_tls_is_not_spoken_to() -> None:
    with pytest.raises(HostlerError):
        await outgoing.ask("GET", "http://127.0.0.1:1/")


# -- S3 --------------------------------------------------------------------------------------------

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


# -- GCS -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Google:
    """The token endpoint and the STS, as far as their documents say what they check."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self.key = key
        self.boundary: Any = None

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        sent = form(asked)
        if asked.path == "/token":
            header, claims, signature = sent["assertion"].split(".")
            signed = f"{header}.{claims}".encode()
            self.key.public_key().verify(unb64(signature), signed, padding.PKCS1v15(), hashes.SHA256())
            said = msgspec.json.decode(unb64(claims))
            assert said["exp"] - said["iat"] <= 3600
            assert said["scope"].endswith("devstorage.read_only")
            return 200, {"access_token": "broad", "expires_in": 1800, "token_type": "Bearer"}
        if sent["subject_token"] != "broad" or sent["grant_type"].rpartition(":")[2] != "token-exchange":
            return 400, {"error": "invalid_grant"}
        self.boundary = msgspec.json.decode(sent["options"])
        return 200, {"access_token": "narrow", "token_type": "Bearer"}


async def test_the_gcs_token_reads_one_prefix(
    tmp_path: Path, server: TlsServer, certs: ServerCerts, rsa_key: rsa.RSAPrivateKey
) -> None:
    server.answer = google = Google(rsa_key)
    account = {"type": "service_account", "client_email": "a@b.test", "private_key": pem(rsa_key).decode()}
    more = {"token_url": f"{server.url}/token", "sts_url": f"{server.url}/sts", "ca_file": str(certs.ca)}
    minter = gcs.GcsDownscope(config.GcsConfig(**common(tmp_path, msgspec.json.encode(account), **more)))
    made = await minter.mint(ask("gcs_read"))
    assert made.material == types.GcsRead(token="narrow")
    assert made.expires_at_ms == NOW + 1_800_000  # the exchange says no time: the subject's
    (rule,) = google.boundary["accessBoundary"]["accessBoundaryRules"]
    assert rule["availablePermissions"] == ["inRole:roles/storage.objectViewer"]
    expected = "resource.name.startsWith('projects/_/buckets/models/objects/llm/v1/')"
    assert rule["availabilityCondition"]["expression"] == expected
    one = gcs.boundary(types.GcsIntent(bucket="models", prefix="a/b.bin"))["accessBoundary"]["accessBoundaryRules"][0]
    assert one["availabilityCondition"]["expression"].startswith("resource.name == ")


# -- Kubernetes ------------------------------------------------------------------------------------


class Apiserver:
    """Takes a Secret as the real one does: by a bearer token, in JSON, with the type's own rules."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        if asked.headers.get("authorization") != f"Bearer {SECRET}":
            return 401, {}
        if (asked.method, asked.path) != ("POST", "/api/v1/namespaces/kube-system/secrets"):
            return 404, {}
        body = msgspec.json.decode(asked.body)
        data = body["stringData"]
        if body["metadata"]["name"] != f"bootstrap-token-{data['token-id']}":
            return 422, {}
        self.made = body
        return 201, body


async def test_a_bootstrap_token_is_made_for_the_length_of_the_task(
    tmp_path: Path, server: TlsServer, certs: ServerCerts
) -> None:
    server.answer = apiserver = Apiserver()
    more = {"server": server.url, "cluster_name": "east", "ca_file": str(certs.ca)}
    made = await kubeadm.Kubeadm(config.KubeadmConfig(**common(tmp_path, **more))).mint(ask("cluster_join_token"))
    assert isinstance(made.material, types.KubernetesJoin)
    assert made.one_time
    assert made.expires_at_ms == DEADLINE
    data = apiserver.made["stringData"]
    assert apiserver.made["type"] == "bootstrap.kubernetes.io/token"
    assert made.material.token == f"{data['token-id']}.{data['token-secret']}"
    assert (len(data["token-id"]), len(data["token-secret"])) == (6, 16)
    assert dt.datetime.fromisoformat(data["expiration"]).timestamp() * 1000 == DEADLINE
    assert data["usage-bootstrap-authentication"] == "true"
    assert "usage-bootstrap-signing" not in data
    ca = x509.load_pem_x509_certificate(certs.ca.read_bytes())
    spki = ca.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert made.material.ca_sha256 == f"sha256:{hashlib.sha256(spki).hexdigest()}"


async def test_a_cluster_that_says_no(tmp_path: Path, server: TlsServer, certs: ServerCerts) -> None:
    server.answer = Apiserver()
    more = {"server": server.url, "cluster_name": "east", "ca_file": str(certs.ca)}
    minter = kubeadm.Kubeadm(config.KubeadmConfig(**common(tmp_path, "other", **more)))
    assert "401" in await failure(minter, ask("cluster_join_token"))


# -- what exists already, and CloudFront -----------------------------------------------------------


async def test_slurm_and_ray_secrets_come_from_files(tmp_path: Path) -> None:
    key = os.urandom(128)
    slurm = files.SlurmKey(
        config.SlurmKeyConfig(**common(tmp_path, key, cluster_name="east", controllers=("ctl-1:6817",)))
    )
    made = await slurm.mint(ask("cluster_join_token"))
    assert made.material == types.SlurmJoin(key=key, controllers=("ctl-1:6817",))
    assert not made.one_time  # the cluster's key lives on: it is wiped, never consumed
    ray = files.RayToken(config.RayTokenConfig(**common(tmp_path, f"{SECRET}\n", cluster_name="r", address="h:6379")))
    made = await ray.mint(ask("cluster_join_token"))
    assert made.material == types.RayJoin(address="h:6379", token=SECRET)
    for bad in (b"short", b""):
        private(tmp_path / "secret", bad)
        await failure(slurm, ask("cluster_join_token"), "invalid_config")


async def test_X25_a_cloudfront_url_is_signed_over_its_canned_policy(
    tmp_path: Path, rsa_key: rsa.RSAPrivateKey
) -> None:
    minter = cloudfront.CloudFront(config.CloudFrontConfig(**common(tmp_path, pem(rsa_key), key_pair_id="K1")))
    made = await minter.mint(ask("https_signed_url"))
    assert isinstance(made.material, types.SignedUrl)
    url, _, query = made.material.url.partition("?")
    sent = {name: value for name, (value,) in parse_qs(query).items()}
    assert (sent["Expires"], sent["Key-Pair-Id"]) == (str(DEADLINE // 1000), "K1")
    signature = base64.b64decode(sent["Signature"].translate(str.maketrans("-_~", "+=/")))
    until = f'{{"DateLessThan":{{"AWS:EpochTime":{sent["Expires"]}}}}}'
    signed = f'{{"Statement":[{{"Resource":"{url}","Condition":{until}}}]}}'
    rsa_key.public_key().verify(signature, signed.encode(), padding.PKCS1v15(), hashes.SHA1())


# -- which one, and for whom -----------------------------------------------------------------------


def hub(home: Path, name: str, secret: str, *scopes: config.Scope) -> config.ReadTokenConfig:
    return config.ReadTokenConfig(name=name, secret_file=private(home / name, secret), scopes=scopes)


def scope(org: str, project: str, source: str) -> config.Scope:
    return config.Scope(org=org, project=project, sources=(source,))


async def test_AR_09_two_hubs_with_separate_credentials(tmp_path: Path) -> None:
    minters = Minters(
        [
            hub(tmp_path, "one", "token-one", scope("acme", "train", "https://huggingface.co/team/")),
            hub(tmp_path, "two", "token-two", scope("*", "*", "https://hub.test/")),
        ]
    )
    first = await minters.for_(ask("hf_token")).mint(ask("hf_token"))
    other = ask("hf_token", intent={"endpoint": "https://hub.test"})
    second = await minters.for_(other).mint(other)
    assert [made.material for made in (first, second)] == [
        types.HfToken(token="token-one"),
        types.HfToken(token="token-two"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"org_id": "other"},
        {"project_id": "other"},
        {"intent": {"repository": "team2/model"}},
        {"intent": {"endpoint": "https://huggingface.co.evil.test"}},
    ],
)
def test_CR_02_a_scope_ends_where_it_says(tmp_path: Path, changes: dict[str, Any]) -> None:
    minters = Minters([hub(tmp_path, "one", "x", scope("acme", "train", "https://huggingface.co/team/"))])
    assert minters.for_(ask("hf_token")).name == "one"
    with pytest.raises(HostlerError) as caught:
        minters.for_(ask("hf_token", **changes))
    assert caught.value.code == "no_minter"


def test_a_cluster_s_minter_is_for_that_cluster(tmp_path: Path) -> None:
    both = config.Scope(org="*", project="*", clusters=("east", "west"))
    ray = config.RayTokenConfig(
        name="ray", secret_file=private(tmp_path / "ray", "x"), scopes=(both,), cluster_name="west", address="h:1"
    )
    minters = Minters([ray])
    assert minters.for_(ask("cluster_join_token", intent={"cluster": "west"})).name == "ray"
    with pytest.raises(HostlerError):
        minters.for_(ask("cluster_join_token"))


def test_a_secret_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    wanted = hub(tmp_path, "one", "x")
    Path(wanted.secret_file).chmod(0o640)
    with pytest.raises(HostlerError) as caught:
        Minters([wanted])
    assert caught.value.code == "invalid_config"
    Path(wanted.secret_file).chmod(0o600)
    with pytest.raises(HostlerError, match="two minters"):
        Minters([wanted, wanted])


@pytest.mark.parametrize(
    "change",
    [{"backend": "shell"}, {"type": "hf_token"}, {"scopes": [{"org": "a"}]}, {"secret_file": ""},
     {"scopes": [{"org": "a", "project": "b", "sources": ["http://x"]}]}],
)  # fmt: skip
def test_a_minter_is_configured_strictly(change: dict[str, Any]) -> None:
    good = {
        "backend": "read_token",
        "name": "hub",
        "secret_file": "/s",
        "scopes": [{"org": "a", "project": "b", "sources": ["https://x/"]}],
    }
    assert msgspec.convert(good, config.MinterConfig).TYPE == "hf_token"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | change, config.MinterConfig)
