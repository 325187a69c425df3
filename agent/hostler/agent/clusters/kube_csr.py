"""The node's certificate: a key that never leaves the node, a request under the key's own name, and its answer.

The request's name comes from the key, and the key is on disk before it is sent: after a crash the same request is
found again, and nothing is asked for twice.
"""

import asyncio
import base64
import hashlib
import ssl
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from hostler.agent.clusters.contract import printable
from hostler.agent.host.net import HttpAnswer, Net
from hostler.base.clock import Deadline
from hostler.base.errors import error

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
USAGES = ("digital signature", "key encipherment", "client auth")
POLL_SECONDS = 1.0
FRESH = timedelta(minutes=10)


def new_key() -> bytes:
    """PEM of an EC key on P-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def is_ours(certificate_pem: bytes, key_pem: bytes, node: str, now: datetime) -> bool:
    """Whether a certificate is this node's, for this key, and good for a while yet."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = load_pem_private_key(key_pem, None).public_key()
    except (ValueError, TypeError):
        return False
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if [name.value for name in names] != [_common_name(node)]:
        return False
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if certificate.public_key().public_bytes(*form) != key.public_bytes(*form):
        return False
    return certificate.not_valid_before_utc <= now and now + FRESH <= certificate.not_valid_after_utc


def usable_key(pem: bytes) -> bool:
    """Whether it is a key that `certify` can ask with."""
    try:
        return isinstance(load_pem_private_key(pem, None), ec.EllipticCurvePrivateKey)
    except (ValueError, TypeError):
        return False


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    certificate: str = ""
    conditions: tuple[_Condition, ...] = ()


class _Csr(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def certify(
    net: Net, server: str, context: ssl.SSLContext, token: str, *, node: str, key_pem: bytes, deadline: Deadline
) -> bytes:
    """Asks for a client certificate and waits until it is issued; an API server that is away is tried again.

    Args:
        context: trusts the pinned CA and nothing else: the token goes to nobody else.

    Raises:
        HostlerError: `join_refused` with the cluster's reason, `cluster_untrusted`, `timeout`.
    """
    name, body = _request(node, key_pem)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    sent, last = False, "nothing was answered yet"
    while not deadline.passed():
        try:
            if not sent:
                made = await net.request("POST", server + REQUESTS, context, headers=headers, body=body)
                sent = made.status in (200, 201, 409)  # 409: sent before, found again by its name
                _refusal(made, "a certificate request")
            answer = await net.request("GET", f"{server}{REQUESTS}/{name}", context, headers=headers)
            _refusal(answer, "to see the certificate request")
            if answer.status == 200:
                certificate = _issued(answer.body)
                if certificate:
                    return certificate
                last = "the certificate request waits for approval"
            else:
                last = f"the API server answers with status {answer.status}"
        except ssl.SSLCertVerificationError as err:
            message = f"{server} has no certificate of the pinned CA: {printable(err.verify_message)}"
            raise error("cluster_untrusted", message) from err
        except OSError as err:
            last = f"{server} cannot be reached: {printable(err.strerror or err)}"
        await asyncio.sleep(min(POLL_SECONDS, deadline.remaining()))
    raise error("timeout", f"no certificate was issued in time: {last}")


def _common_name(node: str) -> str:
    return f"system:node:{node}"


def _request(node: str, key_pem: bytes) -> tuple[str, bytes]:
    key = load_pem_private_key(key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, _common_name(node)),
        ]
    )
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    name = "hostler-" + hashlib.sha256(spki + node.encode()).hexdigest()[:40]
    value = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(csr.public_bytes(Encoding.PEM)).decode(),
            "signerName": SIGNER,
            "usages": list(USAGES),
        },
    }
    return name, msgspec.json.encode(value)


def _refusal(answer: HttpAnswer, what: str) -> None:
    if answer.status in (401, 403):
        why = "the token is unknown or has expired" if answer.status == 401 else "the token does not allow it"
        raise error("join_refused", f"the API server refuses {what}: {why}")
    if answer.status in (400, 422):
        raise error("join_refused", f"the API server refuses {what} with status {answer.status}")


def _issued(body: bytes) -> bytes:
    """The certificate, b"" while there is none. Raises `join_refused` for a request that was denied."""
    try:
        status = msgspec.json.decode(body, type=_Csr).status
        certificate = base64.b64decode(status.certificate, validate=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as err:
        raise error("join_refused", "the API server's answer is no certificate request") from err
    for condition in status.conditions:
        if condition.type in ("Denied", "Failed"):
            why = printable(condition.message) or "no reason given"
            raise error("join_refused", f"the certificate request was {condition.type.lower()}: {why}")
    return certificate


def now() -> datetime:
    return datetime.now(UTC)
