"""What cosign writes, checked against managed keys: image signatures, blob signatures and bundles, attestations.

Formats: cosign's simple-signing payload ("critical" part) with a detached signature; `cosign sign-blob` output, a bare
base64 signature or its `--bundle`; Sigstore bundles v0.x with a message signature or a DSSE envelope; in-toto
Statements v0.1 and v1. Keys come from the keyset alone: certificates, transparency logs and key hints in a document
are not looked at. A key verifies with its own algorithm or not at all.
"""

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from hostler.base.digest import same_digest
from hostler.base.envelope import Envelope, Signature
from hostler.base.errors import error
from hostler.pki import dsse
from hostler.pki.keys import PublicKey

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
IN_TOTO = "application/vnd.in-toto+json"
BUNDLE_PREFIX = "application/vnd.dev.sigstore.bundle"
MAX_SIGNATURE = 1024  # bytes; P-256 and Ed25519 need less than 80
_TYPES = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1")
_STATEMENTS = ("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1")


class _Image(msgspec.Struct, frozen=True):
    digest: str = msgspec.field(name="docker-manifest-digest")


class _Critical(msgspec.Struct, frozen=True):
    image: _Image
    type: str


class _SimpleSigning(msgspec.Struct, frozen=True):
    critical: _Critical


class _Subject(msgspec.Struct, frozen=True):
    digest: dict[str, str]
    name: str = ""


class Statement(msgspec.Struct, frozen=True):
    """An in-toto Statement. `predicate` is as it came."""

    type: str = msgspec.field(name="_type")
    subject: tuple[_Subject, ...]
    predicate_type: str = msgspec.field(name="predicateType", default="")
    predicate: Any = None


class _BlobBundle(msgspec.Struct, frozen=True, rename="camel"):
    base64_signature: str


class _MessageDigest(msgspec.Struct, frozen=True):
    digest: str
    algorithm: str = "SHA2_256"


class _MessageSignature(msgspec.Struct, frozen=True, rename="camel"):
    signature: str
    message_digest: _MessageDigest | None = None


class _DsseSignature(msgspec.Struct, frozen=True):
    sig: str
    keyid: str = ""


class _DsseEnvelope(msgspec.Struct, frozen=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: tuple[_DsseSignature, ...]


class _Bundle(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str
    message_signature: _MessageSignature | None = None
    dsse_envelope: _DsseEnvelope | None = None


def image_signer(payload: bytes, signature: str, digest: str, keys: Collection[PublicKey]) -> str:
    """Id of the key that signed an image, by one simple-signing layer; "" when none of `keys` did, or another image.

    Args:
        payload: the layer's bytes.
        signature: the layer's annotation.
        digest: `sha256:…` of the manifest.
    """
    made = _decoded(signature)
    signer = next((key.key_id for key in keys if made and key.verifies(made, payload)), "")
    if not signer:
        return ""
    try:
        stated = msgspec.json.decode(payload, type=_SimpleSigning).critical
    except msgspec.MsgspecError:
        return ""
    return signer if stated.type in _TYPES and same_digest(stated.image.digest, digest) else ""


def read_signature(data: bytes) -> bytes | Envelope:
    """A detached signature of a blob, or a DSSE envelope, out of any form that cosign writes.

    Raises:
        HostlerError: `signature_missing` for none of them.
    """
    text = data.strip()
    if not text.startswith(b"{"):
        made = _decoded(text.decode("ascii", "replace"))
        if made:
            return made
        raise error("signature_missing", "the file is no signature in base64 and no JSON document")
    for read in (_bundle, _blob_bundle, _envelope):
        found = read(text)
        if found:
            return found
    raise error("signature_missing", "the JSON document is no bundle and no envelope that holds a signature")


def _bundle(data: bytes) -> bytes | Envelope | None:
    try:
        bundle = msgspec.json.decode(data, type=_Bundle)
    except msgspec.MsgspecError:
        return None
    if not bundle.media_type.startswith(BUNDLE_PREFIX):
        return None
    if bundle.dsse_envelope is not None:
        return _of_dsse(bundle.dsse_envelope)
    return _decoded(bundle.message_signature.signature) if bundle.message_signature is not None else None


def _blob_bundle(data: bytes) -> bytes | None:
    try:
        return _decoded(msgspec.json.decode(data, type=_BlobBundle).base64_signature)
    except msgspec.MsgspecError:
        return None


def _envelope(data: bytes) -> Envelope | None:
    try:
        return _of_dsse(msgspec.json.decode(data, type=_DsseEnvelope))
    except msgspec.MsgspecError:
        return None


def _of_dsse(raw: _DsseEnvelope) -> Envelope | None:
    try:
        payload = base64.b64decode(raw.payload, validate=True)
    except (binascii.Error, ValueError):
        return None
    signatures = tuple(Signature(one.keyid, _decoded(one.sig)) for one in raw.signatures[: dsse.MAX_SIGNATURES])
    return Envelope(payload, raw.payload_type, signatures)


def statement_of(envelope: Envelope, keys: Collection[PublicKey]) -> tuple[Statement, str]:
    """The in-toto Statement that one of `keys` signed, and that key's id. Hints about keys are ignored.

    Raises:
        HostlerError: `signature_missing`.
    """
    if envelope.payload_type != IN_TOTO or len(envelope.payload) > dsse.MAX_PAYLOAD_BYTES:
        raise error("signature_missing", "the envelope holds no in-toto statement")
    data = dsse.pae(envelope.payload_type, envelope.payload)
    made = [one.sig for one in envelope.signatures if one.sig]
    signer = next((key.key_id for key in keys for signature in made if key.verifies(signature, data)), "")
    if not signer:
        raise error("signature_missing", "no key of the keyset signed the statement")
    try:
        statement = msgspec.json.decode(envelope.payload, type=Statement)
    except msgspec.MsgspecError as err:
        raise error("signature_missing", "the envelope holds no in-toto statement") from err
    if statement.type not in _STATEMENTS:
        raise error("signature_missing", "the statement is of a type that is not known here")
    return statement, signer


def check_statement(
    statement: Statement, sha256: str, predicate_types: Collection[str], predicate: Mapping[str, Any]
) -> None:
    """Whether a statement is about these bytes and says what is asked for.

    Args:
        predicate_types: any of these; none for whatever it is.
        predicate: values by JSON pointer into the predicate, each of which has to stand there exactly so.

    Raises:
        HostlerError: `signature_missing`.
    """
    if not any(same_digest(one.digest.get("sha256", ""), sha256) for one in statement.subject):
        raise error("signature_missing", "the statement is about other bytes")
    if predicate_types and statement.predicate_type not in predicate_types:
        raise error("signature_missing", f"the statement is a {statement.predicate_type[:200]!r}")
    for pointer, wanted in predicate.items():
        found = _at(statement.predicate, pointer)
        if type(found) is not type(wanted) or found != wanted:
            raise error("signature_missing", f"the statement does not say at {pointer[:200]} what is asked for")


def _at(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _decoded(text: str) -> bytes:
    """b"" for anything but a signature in base64."""
    try:
        made = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
    return made if 0 < len(made) <= MAX_SIGNATURE else b""
