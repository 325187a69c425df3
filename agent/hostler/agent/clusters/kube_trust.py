"""The cluster's CA: wherever its bytes come from, only one whose public key is pinned is trusted.

pinned CA ─ from the step, the credential, or `cluster-info` ─▶ SSLContext ─▶ every request with a secret in it
"""

import base64
import binascii
import hashlib
import hmac
import os
import ssl
from typing import Any

import msgspec
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hostler.base.errors import error

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


def spki_sha256(certificate: x509.Certificate) -> str:
    """Hex, as kubeadm's discovery-token-ca-cert-hash has it behind `sha256:`."""
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).hexdigest()


def pinned(pem: bytes, pins: tuple[str, ...]) -> str:
    """Those certificates of a bundle whose key is pinned, as PEM.

    Raises:
        HostlerError: `cluster_untrusted` when there is none.
    """
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError as err:
        raise error("cluster_untrusted", "the cluster's CA is no PEM certificate") from err
    good = [one for one in found if spki_sha256(one) in pins]
    if not good:
        raise error("cluster_untrusted", "the cluster shows a CA whose key is not the pinned one")
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in good)


def context_for(ca_pem: str, client_pem: bytes = b"") -> ssl.SSLContext:
    """TLS that trusts this CA and nothing else; `client_pem` is a certificate and its key."""
    context = ssl.create_default_context(cadata=ca_pem)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the pin may be of a CA in the middle
    if client_pem:
        fd = os.memfd_create("hostler-client", os.MFD_CLOEXEC)  # the ssl module reads keys from files only
        try:
            os.write(fd, client_pem)
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        except ssl.SSLError as err:
            raise error("file_error", "the node's certificate and key for its cluster do not fit together") from err
        finally:
            os.close(fd)
    return context


def unverified() -> ssl.SSLContext:
    """For `cluster-info` alone, which is public: what it says counts only where the pin confirms it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def ca_of_cluster_info(body: bytes, token: str) -> bytes:
    """The CA out of the ConfigMap, once its signature by the bootstrap token (a detached JWS) fits.

    Raises:
        HostlerError: `cluster_untrusted`.
    """
    try:
        data = msgspec.json.decode(body, type=_ConfigMap).data
        kubeconfig = data["kubeconfig"]
        token_id, _, secret = token.partition(".")
        _check_jws(data.get(f"jws-kubeconfig-{token_id}", ""), kubeconfig, token_id, secret)
        clusters = yaml.safe_load(kubeconfig)["clusters"]
        return base64.b64decode(clusters[0]["cluster"]["certificate-authority-data"], validate=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError, binascii.Error) as err:
        raise error("cluster_untrusted", "cluster-info is not what kubeadm publishes") from err


def _check_jws(jws: str, payload: str, token_id: str, secret: str) -> None:
    header, _, rest = jws.partition(".")
    middle, _, signature = rest.partition(".")
    signed = f"{header}.{_base64url(payload.encode())}".encode()
    expected = _base64url(hmac.digest(secret.encode(), signed, "sha256"))
    known: Any = msgspec.json.decode(_unpadded(header)) if header else {}
    if middle or known != {"alg": "HS256", "kid": token_id} or not hmac.compare_digest(signature, expected):
        raise error("cluster_untrusted", "cluster-info is not signed with the bootstrap token")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
