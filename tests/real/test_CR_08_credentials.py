"""CR-07, CR-08: credentials that real services take: docker-registry by tokens, and moto's STS and S3."""

import base64
import hashlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from conftest import need
from hostler.catalog.credentials import OciPull, S3Read, SignedUrl, intent_of
from hostler.control.credentials import aws, config, registry_token, sigv4
from hostler.control.credentials.contract import Ask
from hostler.pki.storage import write_private
from support.certs import ServerCerts, make_server_certs
from support.moto_s3 import forget
from support.ports import next_port
from support.tls_server import Asked, TlsServer, tls_server

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]
BLOB = b"weights" * 1000
DIGEST = f"sha256:{hashlib.sha256(BLOB).hexdigest()}"
PASSWORD = "robot-password-0123456789"
SERVICE = "registry.test"


def ask(type_: str, intent: dict[str, str], seconds: int = 600) -> Ask:
    now_ms = int(time.time() * 1000)
    return Ask(
        credential_type=type_,
        intent=intent_of(type_, intent),
        org_id="acme",
        project_id="train",
        node_id="nod_1",
        task_id="tsk_1",
        now_ms=now_ms,
        deadline_ms=now_ms + seconds * 1000,
    )


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


# -- a registry, and a token server that keeps to the specification ------------------------------------


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenServer:
    """Grants what is asked for, to whoever knows the password: what keeps it narrow is what is asked for."""

    def __init__(self, certs: ServerCerts) -> None:
        key = serialization.load_pem_private_key(certs.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        certificate = x509.load_pem_x509_certificate(certs.certificate.read_bytes())
        self._x5c = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        expected = base64.b64encode(f"robot:{PASSWORD}".encode()).decode()
        if asked.headers.get("authorization") != f"Basic {expected}":
            return 401, {}
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        return 200, {"token": self.token(query["scope"], query["service"]), "expires_in": 300}

    def token(self, scope: str, service: str = SERVICE) -> str:
        type_, name, actions = scope.split(":")
        now = int(time.time())
        claims = {
            "iss": "tokens.test", "sub": "robot", "aud": service, "exp": now + 300, "nbf": now - 10, "iat": now,
            "jti": "1", "access": [{"type": type_, "name": name, "actions": actions.split(",")}],
        }  # fmt: skip
        header = {"typ": "JWT", "alg": "ES256", "x5c": [self._x5c]}
        signed = f"{_b64(msgspec.json.encode(header))}.{_b64(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_b64(r.to_bytes(32) + s.to_bytes(32))}"


@pytest.fixture(scope="module")
def tokens(certs: ServerCerts) -> Iterator[tuple[TlsServer, TokenServer]]:
    issuer = TokenServer(certs)
    with tls_server(certs, issuer) as server:
        yield server, issuer


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, certs: ServerCerts, tokens: tuple[TlsServer, TokenServer]
) -> Iterator[str]:
    need("docker-registry")
    home, port = tmp_path_factory.mktemp("registry"), next_port()
    settings = home / "registry.yml"
    settings.write_text(f"""\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {home}/data}}}}
http:
  addr: 127.0.0.1:{port}
  tls: {{certificate: {certs.certificate}, key: {certs.key}}}
auth:
  token: {{realm: "{tokens[0].url}/token", service: {SERVICE}, issuer: tokens.test, rootcertbundle: {certs.ca}}}
""")
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(settings)], stdout=log, stderr=log)
        try:
            url = f"https://127.0.0.1:{port}"
            _wait_for(f"{url}/v2/", certs, process, home / "log")
            yield url
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(url: str, certs: ServerCerts, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + 30
    with client(certs) as http:
        while time.monotonic() < end:
            assert process.poll() is None, log.read_text()
            try:
                http.get(url)
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return
    raise AssertionError(log.read_text())


def client(certs: ServerCerts, token: str = "") -> httpx.Client:
    import ssl

    headers = {"authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context(cafile=str(certs.ca))
    return httpx.Client(verify=context, headers=headers, trust_env=False, timeout=20)


def push(registry: str, certs: ServerCerts, issuer: TokenServer, repository: str) -> None:
    with client(certs, issuer.token(f"repository:{repository}:pull,push")) as http:
        begun = http.post(f"{registry}/v2/{repository}/blobs/uploads/")
        assert begun.status_code == 202, begun.text
        where = begun.headers["location"]
        done = http.put(f"{where}{'&' if '?' in where else '?'}digest={DIGEST}", content=BLOB)
        assert done.status_code == 201, done.text


async def test_CR_08_a_minted_oci_pull_pulls_that_repository_and_does_nothing_else(
    tmp_path: Path, certs: ServerCerts, registry: str, tokens: tuple[TlsServer, TokenServer]
) -> None:
    server, issuer = tokens
    for repository in ("team/model", "team/other"):
        push(registry, certs, issuer, repository)
    write_private(tmp_path / "robot", PASSWORD.encode())
    scope = config.Scope(org="acme", project="train", sources=(f"{registry}/v2/team/model/",))
    minter = registry_token.RegistryToken(
        config.RegistryTokenConfig(
            name="registry", secret_file=str(tmp_path / "robot"), scopes=(scope,), ca_file=str(certs.ca),
            token_url=f"{server.url}/token", service=SERVICE, username="robot",
        )
    )  # fmt: skip
    intent = {"registry": registry, "repository": "team/model", "digest": DIGEST}
    made = await minter.mint(ask("oci_pull", intent))
    assert isinstance(made.material, OciPull)
    with client(certs) as http:
        assert http.get(f"{registry}/v2/team/model/blobs/{DIGEST}").status_code == 401
    with client(certs, made.material.token) as http:
        assert http.get(f"{registry}/v2/team/model/blobs/{DIGEST}").content == BLOB
        assert http.get(f"{registry}/v2/team/other/blobs/{DIGEST}").status_code in (401, 403)
        assert http.post(f"{registry}/v2/team/model/blobs/uploads/").status_code in (401, 403)
        mount = f"{registry}/v2/team/copy/blobs/uploads/?mount={DIGEST}&from=team/model"
        assert http.post(mount).status_code in (401, 403)
        assert http.delete(f"{registry}/v2/team/model/blobs/{DIGEST}").status_code in (401, 403, 405)
        assert http.get(f"{registry}/v2/_catalog").status_code in (401, 403)


# -- S3 ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cloud(certs: ServerCerts) -> Iterator[str]:
    """moto, which takes STS and S3 calls as AWS does, behind our certificate."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    forget()
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", next_port(), app, threaded=True, ssl_context=(certs.certificate, certs.key))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


OWN = sigv4.Keys(access_key_id="AKIAOWNKEY", secret_access_key="own-secret-key")


def signed_get(url: str, keys: sigv4.Keys, session_token: str = "") -> dict[str, str]:
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"x-amz-content-sha256": empty} | ({"x-amz-security-token": session_token} if session_token else {})
    now_ms = int(time.time() * 1000)
    return sigv4.authorization("GET", url, headers, b"", keys, sigv4.Where("eu-west-1", "s3"), now_ms)


async def test_CR_07_an_s3_session_reads_what_it_was_minted_for(tmp_path: Path, certs: ServerCerts, cloud: str) -> None:
    with client(certs) as http:
        own = {"authorization": "AWS4-HMAC-SHA256 Credential=AKIAOWNKEY/20270101/eu-west-1/s3/aws4_request"}
        location = (
            b"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>"
        )
        assert http.put(f"{cloud}/models", headers=own, content=location).status_code == 200
        assert http.put(f"{cloud}/models/llm/v1/a.bin", headers=own, content=BLOB).status_code == 200
    write_private(tmp_path / "keys", msgspec.json.encode(OWN))
    scope = config.Scope(org="acme", project="train", sources=(f"{cloud}/models/llm/",))
    common: dict[str, Any] = {"secret_file": str(tmp_path / "keys"), "scopes": (scope,), "region": "eu-west-1"}
    role = "arn:aws:iam::123456789012:role/reader"
    sts = aws.AwsSts(config.AwsStsConfig(name="s3", sts_url=cloud, role_arn=role, ca_file=str(certs.ca), **common))
    order = ask("s3_read", {"endpoint": cloud, "bucket": "models", "prefix": "llm/v1/"})
    made = await sts.mint(order)
    assert isinstance(made.material, S3Read)
    assert made.material.session_token
    assert made.expires_at_ms - order.now_ms <= 900_000 + 60_000
    keys = sigv4.Keys(access_key_id=made.material.access_key_id, secret_access_key=made.material.secret_access_key)
    url = f"{cloud}/models/llm/v1/a.bin"
    with client(certs) as http:
        assert http.get(url, headers=signed_get(url, keys, made.material.session_token)).content == BLOB

    presign = aws.S3Presign(config.S3PresignConfig(name="url", **common))
    signed = await presign.mint(ask("https_signed_url", {"url": url}))
    assert isinstance(signed.material, SignedUrl)
    with client(certs) as http:
        assert http.get(signed.material.url).content == BLOB
