"""SHA-256 values and canonical bytes."""

import hashlib
import hmac
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")


def sha256_hex(data: bytes) -> str:
    """Lower-case hex SHA-256 of `data`, 64 characters."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """The one encoding that is signed and digested: UTF-8, sorted keys, no white space.

    Floats other than integers-in-disguise have no single spelling and do not belong in signed
    documents; `hostler.base.strict.decode_canonical` refuses whatever does not survive a round trip.
    """
    return _ENCODER.encode(value)


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(canonical_json(value))


def same_digest(left: str, right: str) -> bool:
    """Constant-time comparison."""
    return hmac.compare_digest(left.encode(), right.encode())
