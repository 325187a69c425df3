"""The certificate authority: short-lived identities for nodes and control planes, from policy alone."""

import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hostler.base.errors import error
from hostler.pki.keys import PublicKey, X509Signer
from hostler.pki.names import control_dns_name, spiffe_id
from hostler.pki.x509 import from_ms, subject_key, to_pem

NODE_LIFETIME_S = 24 * 3600
CONTROL_LIFETIME_S = 365 * 24 * 3600
CA_LIFETIME_S = 10 * 365 * 24 * 3600
_BACKDATED_MS = 60_000  # a node's clock may be a little behind ours
_NO_USE = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False) | {
    "encipher_only": False,
    "decipher_only": False,
}


def make_ca(signer: X509Signer, trust_domain: str, now_ms: int) -> bytes:
    """A self-signed CA certificate (PEM) that may issue leaves only."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"hostler ca {trust_domain}"[:64])])
    builder = _builder(name, name, signer.public, now_ms, CA_LIFETIME_S)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **_NO_USE),
            critical=True,
        )
        .sign(signer.private_key, hashes.SHA256())
    )
    return to_pem(certificate)


class Authority:
    """Issues leaves with the CA key. The key must be the one the CA certificate is for.

    Attributes:
        ca_key: subject key identifier of that certificate, hex, as `x509.issuer_key` gives it of a leaf.
    """

    def __init__(self, signer: X509Signer, ca_pem: bytes, trust_domain: str) -> None:
        try:
            self._ca = x509.load_pem_x509_certificate(ca_pem)
        except ValueError as err:
            raise error("invalid_config", "the CA certificate cannot be read") from err
        spki = self._ca.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        if spki != signer.public.spki_der:
            raise error("invalid_config", "the CA key does not belong to the CA certificate")
        self._signer = signer
        self._ca_pem = ca_pem
        self._trust_domain = trust_domain
        self.ca_key = subject_key(ca_pem)

    def issue_node(self, node_id: str, key: PublicKey, now_ms: int, lifetime_s: int = NODE_LIFETIME_S) -> bytes:
        """Certificate chain (PEM, leaf first) that may only be a TLS client."""
        names: list[x509.GeneralName] = [self._uri("node", node_id)]
        return self._issue(node_id, key, names, ExtendedKeyUsageOID.CLIENT_AUTH, now_ms, lifetime_s)

    def issue_control(self, cluster_id: str, key: PublicKey, hosts: tuple[str, ...], now_ms: int) -> bytes:
        """Certificate chain of a control plane's servers; `hosts` are DNS names and addresses."""
        names: list[x509.GeneralName] = [self._uri("control", cluster_id)]
        names += [_general_name(host) for host in (control_dns_name(self._trust_domain), *hosts)]
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(cluster_id, key, names, usage, now_ms, CONTROL_LIFETIME_S)

    def _uri(self, role: str, name: str) -> x509.UniformResourceIdentifier:
        return x509.UniformResourceIdentifier(spiffe_id(self._trust_domain, role, name))

    def _issue(
        self,
        name: str,
        key: PublicKey,
        names: list[x509.GeneralName],
        usage: x509.ObjectIdentifier,
        now_ms: int,
        lifetime_s: int,
    ) -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        builder = _builder(subject, self._ca.subject, key, now_ms, lifetime_s)
        ca_key_id = self._ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **_NO_USE),
                critical=True,
            )
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_key_id), critical=False)
            .sign(self._signer.private_key, hashes.SHA256())
        )
        return to_pem(certificate) + self._ca_pem


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PublicKey, now_ms: int, lifetime_s: int
) -> x509.CertificateBuilder:
    public = serialization.load_der_public_key(key.spki_der)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)  # type: ignore[arg-type]  # PublicKey admits Ed25519 and P-256 only
        .serial_number(x509.random_serial_number())
        .not_valid_before(from_ms(now_ms - _BACKDATED_MS))
        .not_valid_after(from_ms(now_ms + lifetime_s * 1000))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)  # type: ignore[arg-type]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
