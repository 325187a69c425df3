"""Certificates: SPIFFE identities, signing requests, and what a peer's certificate says.

Imports `cryptography.x509`, so an idle agent loads it only when it renews.
"""

import datetime
from typing import Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from hostler.base.errors import error
from hostler.pki.keys import FileSigner, PublicKey
from hostler.pki.names import SPIFFE, control_dns_name

_DER, _PEM = serialization.Encoding.DER, serialization.Encoding.PEM
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


class PeerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a certificate says the peer is. TLS has checked the chain; time is checked by `check_time`."""

    trust_domain: str
    role: Literal["node", "control"]
    name: str
    thumbprint: str
    serial: str
    not_before_ms: int
    not_after_ms: int
    issuer_key: str = ""


def make_csr(signer: FileSigner, name: str) -> bytes:
    """A signing request (DER), signed by the key it is for."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(signer.private_key, hashes.SHA256()).public_bytes(_DER)


def read_csr(der: bytes) -> PublicKey:
    """The key of a request that proves to hold it.

    Raises:
        HostlerError: `invalid_request` for a broken request, `bad_signature` without proof of possession.
    """
    try:
        request = x509.load_der_x509_csr(der)
        proved = request.is_signature_valid
        key = PublicKey(request.public_key().public_bytes(_DER, _SPKI))
    except (ValueError, TypeError, InvalidSignature) as err:
        raise error("invalid_request", "the certificate signing request cannot be read") from err
    if not proved:
        raise error("bad_signature", "the signing request is not signed by its own key")
    return key


def read_identity(pem: bytes) -> PeerIdentity:
    """The identity in the first certificate of `pem`.

    Raises:
        HostlerError: `certificate_invalid`.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        spki = certificate.public_key().public_bytes(_DER, _SPKI)
    except (ValueError, x509.ExtensionNotFound) as err:
        raise error("certificate_invalid", "the certificate carries no identity of ours") from err
    match = SPIFFE.fullmatch(uris[0]) if len(uris) == 1 else None
    if match is None:
        raise error("certificate_invalid", "the certificate carries no single SPIFFE identity")
    return PeerIdentity(
        trust_domain=match[1],
        role="node" if match[2] == "node" else "control",
        name=match[3],
        thumbprint=PublicKey(spki).key_id,
        serial=format(certificate.serial_number, "x"),
        not_before_ms=to_ms(certificate.not_valid_before_utc),
        not_after_ms=to_ms(certificate.not_valid_after_utc),
        issuer_key=issuer_key(pem),
    )


def server_names(pem: bytes, trust_domain: str) -> tuple[str, tuple[str, ...]]:
    """The cluster id and the hosts that a control plane's certificate is for.

    Raises:
        HostlerError: `certificate_invalid`.
    """
    cluster_id = read_identity(pem).name
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    own = control_dns_name(trust_domain)
    dns = [name for name in names.get_values_for_type(x509.DNSName) if name != own]
    return cluster_id, (*dns, *(str(address) for address in names.get_values_for_type(x509.IPAddress)))


def issuer_key(pem: bytes) -> str:
    """The id of the key that issued the first certificate of `pem`, as `subject_key` gives it; "" for none."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        issuer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except (ValueError, x509.ExtensionNotFound):
        return ""
    return (issuer.key_identifier or b"").hex()


def subject_key(pem: bytes) -> str:
    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest.hex()


def check_time(identity: PeerIdentity, now_ms: int) -> None:
    """Raises `certificate_invalid` outside the certificate's life."""
    if not identity.not_before_ms <= now_ms < identity.not_after_ms:
        raise error("certificate_invalid", f"the certificate of {identity.name} is not valid now")


def issued_by(pem: bytes, ca_pems: tuple[str, ...]) -> bool:
    """Whether the first certificate of `pem` was directly issued by one of the CAs."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return False
    for ca_pem in ca_pems:
        try:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca_pem.encode()))
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def to_ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)


def to_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(_PEM)
