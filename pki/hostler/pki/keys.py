"""Key types behind two small faces: `Signer` makes signatures, `PublicKey` checks them.

Ed25519 signs what people and the control plane decide (root, catalog, dispatch). Nodes and the CA use
P-256, because TLS needs it; a node's receipts are signed with the same key as its identity.
"""

import hashlib
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils

from hostler.base.errors import error

_ECDSA = ec.ECDSA(hashes.SHA256())
_PREHASHED = ec.ECDSA(utils.Prehashed(hashes.SHA256()))
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
_DER = serialization.Encoding.DER


def key_id(spki_der: bytes) -> str:
    """Hex SHA-256 of the SubjectPublicKeyInfo; also a node key's thumbprint."""
    return hashlib.sha256(spki_der).hexdigest()


class PublicKey:
    """A verification key. Equal keys have equal ids, whatever name a document gives them."""

    def __init__(self, spki_der: bytes) -> None:
        try:
            key = serialization.load_der_public_key(spki_der)
        except ValueError as err:
            raise error("untrusted_key", "a public key cannot be read") from err
        if not isinstance(key, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey):
            raise error("untrusted_key", "a public key is neither Ed25519 nor P-256")
        if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name != "secp256r1":
            raise error("untrusted_key", f"curve {key.curve.name} is not accepted")
        if key.public_bytes(_DER, _SPKI) != spki_der:  # else one key could have several ids, and count as often
            raise error("untrusted_key", "a public key is not in its one usual form")
        self._key = key
        self.spki_der = spki_der
        self.key_id = key_id(spki_der)

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Whether `signature` over `data` was made by this key."""
        try:
            if isinstance(self._key, ed25519.Ed25519PublicKey):
                self._key.verify(signature, data)
            else:
                self._key.verify(signature, data, _ECDSA)
        except InvalidSignature:
            return False
        return True

    def verifies_digest(self, signature: bytes, sha256: bytes) -> bool:
        """Whether `signature` is one over the bytes that have this SHA-256. P-256 only: Ed25519 signs no digest."""
        if isinstance(self._key, ed25519.Ed25519PublicKey):
            return False
        try:
            self._key.verify(signature, sha256, _PREHASHED)
        except InvalidSignature:
            return False
        return True


class Signer(Protocol):
    """Makes signatures; where the private key lives is its own business."""

    @property
    def public(self) -> PublicKey: ...

    def sign(self, data: bytes) -> bytes: ...


class X509Signer(Signer, Protocol):
    """Signs certificates and requests as well, and may be able to lend its key to TLS."""

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey: ...

    def to_pem(self) -> bytes: ...


class FileSigner:
    """A private key held in this process. Has no repr of its content and cannot be pickled."""

    def __init__(self, private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes(_DER, _SPKI))

    def __reduce__(self) -> str:
        raise TypeError("a private key is not pickled")

    def sign(self, data: bytes) -> bytes:
        if isinstance(self._private, ed25519.Ed25519PrivateKey):
            return self._private.sign(data)
        return self._private.sign(data, _ECDSA)

    @property
    def private_key(self) -> ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey:
        """For TLS and CSRs only."""
        return self._private

    def to_pem(self) -> bytes:
        """PKCS#8 PEM without a passphrase; `hostler.pki.storage` writes it with mode 0600."""
        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    @classmethod
    def from_pem(cls, pem: bytes) -> "FileSigner":
        """Raises `invalid_config` for anything but an unencrypted Ed25519 or P-256 key."""
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as err:
            raise error("invalid_config", "a private key file cannot be read as PEM") from err
        if not isinstance(key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
            raise error("invalid_config", "a private key is neither Ed25519 nor P-256")
        return cls(key)


def new_ed25519() -> FileSigner:
    return FileSigner(ed25519.Ed25519PrivateKey.generate())


def new_p256() -> FileSigner:
    return FileSigner(ec.generate_private_key(ec.SECP256R1()))
