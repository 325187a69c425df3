"""CR-07: each minter, against a server that keeps to the issuer's own protocol, and against one that does not."""

import base64
import datetime as dt
import hashlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from hostler.catalog import credentials as types
from hostler.control.credentials import cloudfront, config, files, gcs, kubeadm
from support.certs import ServerCerts
from support.issuers import DEADLINE, NOW, SECRET, ask, common, failure, form, private
from support.tls_server import Asked, TlsServer

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
