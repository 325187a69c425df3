"""What a registry holds beside a manifest to prove who stands for it: signatures and attestations, by cosign's tags and
by OCI referrers. Everything found is hostile until a managed key fits it."""

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, NamedTuple

from hostler.agent.oci.manifest import ACCEPT, MAX_BYTES, Descriptor, Index, Manifest, parse
from hostler.agent.oci.registry import Registry
from hostler.base.digest import same_digest, sha256_hex
from hostler.base.envelope import Envelope
from hostler.base.errors import HostlerError, error
from hostler.pki.cosign import (
    BUNDLE_PREFIX,
    SIGNATURE_ANNOTATION,
    SIMPLE_SIGNING,
    check_statement,
    image_signer,
    read_signature,
    statement_of,
)
from hostler.pki.keys import PublicKey

ENVELOPE = "application/vnd.dsse.envelope.v1+json"
SIGNED_IMAGE = "https://sigstore.dev/cosign/sign/v1"
MOST = 64  # signatures that are looked at; who needs more hides one
MAX_PAYLOAD = 4 * 1024 * 1024


class Wanted(NamedTuple):
    """`predicate_types` and `predicate` empty: a signature of the image itself; else an attestation about it."""

    keys: Collection[PublicKey]
    predicate_types: tuple[str, ...]
    predicate: Mapping[str, Any]

    @property
    def attestation(self) -> bool:
        return bool(self.predicate_types or self.predicate)


async def signer_of(registry: Registry, wanted: Wanted) -> str:
    """The id of the key that stands for the reference's digest.

    Raises:
        HostlerError: `signature_missing` when none of the keys does; what the registry refuses.
    """
    digest = registry.reference.digest
    left = MOST
    async for layer in _layers(registry, digest):
        if layer.size > MAX_PAYLOAD or not _may_be(layer, wanted):
            continue
        left -= 1
        if left < 0:
            break
        got = await registry.blob(layer.digest, MAX_PAYLOAD)
        if not same_digest(f"sha256:{sha256_hex(got.body)}", layer.digest):
            continue
        signer = _judge(layer, got.body, digest, wanted)
        if signer:
            return signer
    what = "attests what is asked for" if wanted.attestation else "signed it"
    raise error("signature_missing", f"{digest} has no signature in its registry by which a key of the keyset {what}")


def _may_be(layer: Descriptor, wanted: Wanted) -> bool:
    if layer.media_type == SIMPLE_SIGNING:
        return not wanted.attestation
    return layer.media_type == ENVELOPE or layer.media_type.startswith(BUNDLE_PREFIX)


def _judge(layer: Descriptor, body: bytes, digest: str, wanted: Wanted) -> str:
    """Id of the key, "" for a signature that does not count."""
    if layer.media_type == SIMPLE_SIGNING:
        return image_signer(body, (layer.annotations or {}).get(SIGNATURE_ANNOTATION, ""), digest, wanted.keys)
    try:
        found = read_signature(body)
        if not isinstance(found, Envelope):
            return ""
        statement, signer = statement_of(found, wanted.keys)
        types = wanted.predicate_types if wanted.attestation else (SIGNED_IMAGE,)
        check_statement(statement, digest.removeprefix("sha256:"), types, wanted.predicate)
    except HostlerError:
        return ""
    return signer


async def _layers(registry: Registry, digest: str) -> AsyncIterator[Descriptor]:
    for kind in ("sig", "att"):
        found = await _manifest(registry, f"{digest.replace(':', '-')}.{kind}")
        for layer in found.layers if isinstance(found, Manifest) else ():
            yield layer
    for referrer in await _referrers(registry, digest):
        found = await _manifest(registry, referrer.digest)
        if isinstance(found, Manifest) and found.subject is not None and found.subject.digest == digest:
            for layer in found.layers:
                yield layer


async def _referrers(registry: Registry, digest: str) -> tuple[Descriptor, ...]:
    """By the referrers API, and by the tag that stands for it in registries without."""
    got = await registry.referrers(digest, MAX_BYTES)
    found: Manifest | Index | None
    if got is None:
        found = await _manifest(registry, digest.replace(":", "-"))
    else:
        found = parse(got.body, f"sha256:{sha256_hex(got.body)}", got.answer.get("content-type"))
    return found.manifests[:MOST] if isinstance(found, Index) else ()


async def _manifest(registry: Registry, digest_or_tag: str) -> Manifest | Index | None:
    got = await registry.optional(digest_or_tag, ACCEPT, MAX_BYTES)
    if got is None:
        return None
    digest = digest_or_tag if digest_or_tag.startswith("sha256:") else f"sha256:{sha256_hex(got.body)}"
    return parse(got.body, digest, got.answer.get("content-type"))
