"""`cluster_join_token` for Kubernetes: a bootstrap token, made as a Secret over the cluster's REST API.

https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
"""

import datetime
import hashlib
import secrets
import string
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from hostler.base.errors import error
from hostler.catalog.credentials import KubernetesJoin
from hostler.control.credentials import outgoing
from hostler.control.credentials.config import KubeadmConfig
from hostler.control.credentials.contract import Ask, Made
from hostler.pki.storage import read_private, read_public

_SECRETS = "/api/v1/namespaces/kube-system/secrets"
_ALPHABET = string.ascii_lowercase + string.digits
_GROUP = "system:bootstrappers:kubeadm:default-node-token"
_SPKI = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo


class Kubeadm:
    """The cluster's own token cleaner removes what has expired."""

    def __init__(self, config: KubeadmConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        config = self._config
        ca_pem = read_public(Path(config.ca_file))
        bearer = read_private(Path(config.secret_file)).decode("ascii", "replace").strip()
        token_id, token_secret = _random(6), _random(16)
        body = msgspec.json.encode(token_object(token_id, token_secret, ask))
        await outgoing.ask(
            "POST",
            f"{config.server}{_SECRETS}",
            ca_file=config.ca_file,
            headers={"authorization": f"Bearer {bearer}", "content-type": "application/json"},
            content=body,
            expected=(201,),
        )
        made = KubernetesJoin(
            server=config.server,
            token=f"{token_id}.{token_secret}",
            ca_pem=ca_pem.decode(),
            ca_sha256=f"sha256:{_spki_digest(ca_pem, self.name)}",
        )
        return Made(material=made, expires_at_ms=ask.deadline_ms, one_time=True)


def token_object(token_id: str, token_secret: str, ask: Ask) -> dict[str, Any]:
    """The Secret: it authenticates a joining node until the task's deadline, and signs nothing."""
    until = datetime.datetime.fromtimestamp(ask.deadline_ms // 1000, datetime.UTC)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "description": f"hostler task {ask.task_id} on node {ask.node_id}",
            "token-id": token_id,
            "token-secret": token_secret,
            "expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": _GROUP,
        },
    }


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _spki_digest(ca_pem: bytes, name: str) -> str:
    try:
        certificate = x509.load_pem_x509_certificate(ca_pem)
    except ValueError as err:
        raise error("invalid_config", f"the ca_file of minter {name} holds no certificate") from err
    return hashlib.sha256(certificate.public_key().public_bytes(*_SPKI)).hexdigest()
