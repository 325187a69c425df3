"""Sealing to a key that was made for one request: X25519, HKDF-SHA-256, AES-256-GCM.

    recipient = Recipient()          its public key travels in the request
    sealed = seal(recipient.public, data, context)
    room = recipient.open(sealed, context)

`context` says what the two ends agree on (here the digest of the signed request): opened under another one, the bytes
are refused. The construction is that of HPKE's base mode (RFC 9180) with one message a key: the shared secret, both
public keys and the context go into the derivation, and a key is used once, so the nonce may be fixed.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hostler.base.errors import error

_RAW = serialization.Encoding.Raw, serialization.PublicFormat.Raw
_KEY_BYTES, _TAG_BYTES, _BLOCK = 32, 16, 16
_NONCE = bytes(12)
_INFO = b"hostler sealed v1"
MAX_BYTES = 64 * 1024


class Recipient:
    """Holds the private key until it is dropped; opens one message."""

    def __init__(self) -> None:
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes(*_RAW)

    def open(self, sealed: bytes, context: bytes) -> bytearray:
        """The bytes, in a buffer that the caller wipes. The key is gone afterwards.

        Raises:
            HostlerError: `bad_signature` for what was not sealed to this key under this context.
        """
        private, self._private = self._private, None
        if private is None or not _KEY_BYTES + _TAG_BYTES <= len(sealed) <= MAX_BYTES:
            raise error("bad_signature", "nothing was sealed to this key")
        sender, body, tag = sealed[:_KEY_BYTES], sealed[_KEY_BYTES:-_TAG_BYTES], sealed[-_TAG_BYTES:]
        decoy_key, decoy = bytes(_KEY_BYTES), AESGCM(bytes(_KEY_BYTES)).encrypt(_NONCE, bytes(len(body)), b"")
        try:
            key = _derive(private.exchange(X25519PublicKey.from_public_bytes(sender)), sender, self.public, context)
            _opened(decoy_key, decoy[:-_TAG_BYTES], decoy[-_TAG_BYTES:], b"")
            return _opened(key, body, tag, context)
        except (InvalidTag, ValueError) as err:
            raise error("bad_signature", "what was sealed to this key does not open") from err
        finally:
            # Vector registers still hold the last bytes that went through them, and end up on stacks by way of signals,
            # new threads and the dynamic linker. The same work over zeros leaves zeros there.
            _opened(decoy_key, decoy[:-_TAG_BYTES], decoy[-_TAG_BYTES:], b"")


def _opened(key: bytes, body: bytes, tag: bytes, context: bytes) -> bytearray:
    """Raises `InvalidTag`; what was decrypted until then is wiped."""
    room = bytearray(len(body) + _BLOCK)
    try:
        cipher = Cipher(algorithms.AES(key), modes.GCM(_NONCE, tag)).decryptor()
        cipher.authenticate_additional_data(context)
        # into our own buffer: what the one-call form returns could not be wiped
        count = cipher.update_into(body, room)
        cipher.finalize()
        opened = bytearray(count)  # cutting `room` short might move it, and leave a copy behind
        with memoryview(room) as whole:
            opened[:] = whole[:count]
        return opened
    finally:
        room[:] = bytes(len(room))


def seal(public: bytes, data: bytes | bytearray, context: bytes) -> bytes:
    """`data` for the holder of `public` alone.

    Raises:
        HostlerError: `invalid_request` for a public key that is none.
    """
    private = X25519PrivateKey.generate()
    sender = private.public_key().public_bytes(*_RAW)
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as err:
        raise error("invalid_request", "the request's public key is none", pointer="/public_key") from err
    return sender + AESGCM(_derive(shared, sender, public, context)).encrypt(_NONCE, data, context)


def _derive(shared: bytes, sender: bytes, recipient: bytes, context: bytes) -> bytes:
    info = b"\0".join((_INFO, sender + recipient, context))
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(shared)
