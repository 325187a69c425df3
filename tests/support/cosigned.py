"""Signatures as cosign writes them, made from the formats' descriptions alone."""

import base64
import json
from typing import Any

from hostler.pki import dsse
from hostler.pki.keys import FileSigner
from support.registry import OCI_MANIFEST, Registry, sha

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SBOM = "https://spdx.dev/Document"


def simple_signing(digest: str, kind: str = "cosign container image signature") -> bytes:
    image = {"docker-manifest-digest": digest}
    critical = {"identity": {"docker-reference": "any"}, "image": image, "type": kind}
    return json.dumps({"critical": critical, "optional": None}).encode()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def statement(sha256: str, predicate_type: str = SBOM, predicate: Any = None, kind: str = "v1") -> bytes:
    subject = [{"name": "m", "digest": {"sha256": sha256}}]
    head = {"_type": f"https://in-toto.io/Statement/{kind}", "subject": subject, "predicateType": predicate_type}
    return json.dumps(head | {"predicate": predicate if predicate is not None else {"level": 3}}).encode()


def envelope(payload: bytes, *signers: FileSigner, type_: str = "application/vnd.in-toto+json") -> bytes:
    """As cosign writes it: without key ids."""
    data = dsse.pae(type_, payload)
    signatures = [{"keyid": "", "sig": b64(signer.sign(data))} for signer in signers]
    return json.dumps({"payloadType": type_, "payload": b64(payload), "signatures": signatures}).encode()


def bundle(**part: Any) -> bytes:
    return json.dumps({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": "x"}}, **part}).encode()


def sign_image(registry: Registry, repository: str, digest: str, *signers: FileSigner, payload: bytes = b"") -> None:
    """What `cosign sign --key` pushes: a manifest under the tag `sha256-….sig`."""
    payload = payload or simple_signing(digest)
    layers = []
    for signer in signers:
        layer = registry.blob(repository, payload, SIMPLE_SIGNING)
        layer["annotations"] = {"dev.cosignproject.cosign/signature": b64(signer.sign(payload))}
        layers.append(layer)
    _push(registry, repository, layers, f"{digest.replace(':', '-')}.sig")


def attest_image(registry: Registry, repository: str, digest: str, attestation: bytes) -> None:
    """What `cosign attest --key` pushes, under the tag `sha256-….att`."""
    layer = registry.blob(repository, attestation, "application/vnd.dsse.envelope.v1+json")
    _push(registry, repository, [layer], f"{digest.replace(':', '-')}.att")


def refer(registry: Registry, repository: str, digest: str, blob: bytes, media_type: str = BUNDLE) -> None:
    """A referrer, as registries without the referrers API are told of it: an index under the tag `sha256-…`."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": media_type,
        "config": registry.blob(repository, b"{}", "application/vnd.oci.empty.v1+json"),
        "layers": [registry.blob(repository, blob, media_type)],
        "subject": {"mediaType": OCI_MANIFEST, "digest": digest, "size": 1},
    }
    body = json.dumps(manifest).encode()
    assert registry.manifest(repository, manifest) == sha(body)
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}
    entry = {"mediaType": OCI_MANIFEST, "digest": sha(body), "size": len(body), "artifactType": media_type}
    registry.manifest(repository, index | {"manifests": [entry]}, digest.replace(":", "-"))


def _push(registry: Registry, repository: str, layers: list[dict[str, Any]], tag: str) -> None:
    config = registry.blob(repository, b'{"rootfs": {}}', "application/vnd.oci.image.config.v1+json")
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}
    registry.manifest(repository, document, tag)
