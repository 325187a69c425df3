"""DSSE v1: sign and verify opaque bytes, before anybody parses them.

Specification: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

import base64
import binascii
from collections.abc import Collection, Iterable

import msgspec

from hostler.base.envelope import Envelope, Signature
from hostler.base.errors import error
from hostler.pki.keys import PublicKey, Signer

MAX_PAYLOAD_BYTES = 4 * 1024 * 1024
MAX_SIGNATURES = 16


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding: what a signature covers."""
    name = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def sign(payload: bytes, payload_type: str, signers: Iterable[Signer]) -> Envelope:
    data = pae(payload_type, payload)
    made = tuple(Signature(s.public.key_id, s.sign(data)) for s in signers)
    return Envelope(payload, payload_type, made)


def verify(
    envelope: Envelope,
    payload_type: str,
    keys: Collection[PublicKey],
    threshold: int = 1,
) -> bytes:
    """The payload, once `threshold` different keys of `keys` have signed it.

    Keys are told apart by their own bytes, never by the name a document gives them. There is no
    algorithm field to confuse: a key verifies with its own algorithm or not at all.

    Raises:
        HostlerError: `malformed_envelope`, `untrusted_key` (no signature by one of `keys`),
            `bad_signature` (one is, but does not fit, or too few do).
    """
    if envelope.payload_type != payload_type:
        raise error("malformed_envelope", f"payload type is not {payload_type}")
    if len(envelope.payload) > MAX_PAYLOAD_BYTES or len(envelope.signatures) > MAX_SIGNATURES:
        raise error("malformed_envelope", "the envelope is larger than any we make")
    if threshold < 1:
        raise error("untrusted_key", "a threshold below one would accept anything")
    trusted = {key.key_id: key for key in keys}
    claimed = [s for s in envelope.signatures if s.keyid in trusted]
    if not claimed:
        raise error("untrusted_key", "no signature is by a key trusted for this role")
    data = pae(payload_type, envelope.payload)
    good = {s.keyid for s in claimed if trusted[s.keyid].verifies(s.sig, data)}
    if len(good) < threshold:
        raise error("bad_signature", f"{len(good)} of {threshold} required signatures fit the payload")
    return envelope.payload


class _JsonSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _JsonEnvelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: tuple[_JsonSignature, ...]


_DECODER = msgspec.json.Decoder(_JsonEnvelope)


def to_json(envelope: Envelope) -> bytes:
    """The standard JSON form, as other DSSE tools read it."""
    signatures = tuple(_JsonSignature(s.keyid, _b64(s.sig)) for s in envelope.signatures)
    return msgspec.json.encode(_JsonEnvelope(_b64(envelope.payload), envelope.payload_type, signatures))


def from_json(data: bytes) -> Envelope:
    """Raises `malformed_envelope` for anything but one well-formed envelope."""
    try:
        raw = _DECODER.decode(data)
        payload = base64.b64decode(raw.payload, validate=True)
        signatures = tuple(Signature(s.keyid, base64.b64decode(s.sig, validate=True)) for s in raw.signatures)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as err:
        raise error("malformed_envelope", "not a DSSE envelope in JSON") from err
    return Envelope(payload, raw.payload_type, signatures)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
