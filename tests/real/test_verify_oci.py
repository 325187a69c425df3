"""AR-05, A8: signatures and attestations of what a real registry holds, by managed keys."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.steps.artifact_verify import KIND
from hostler.base.errors import HostlerError
from hostler.catalog.params.artifact import Verify
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from support.certs import make_server_certs
from support.cosigned import SBOM, attest_image, bundle, envelope, refer, sign_image, simple_signing, statement
from support.pulling_oci import OciPuller
from support.registry import Registry, registry
from support.steps import context_of

pytestmark = pytest.mark.real
P256, ED25519, FOREIGN = new_p256(), new_ed25519(), new_p256()
SIGNED_IMAGE = "https://sigstore.dev/cosign/sign/v1"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, OciPuller]]:
    place = tmp_path_factory.mktemp("registry")
    certs = make_server_certs(place)
    with registry(place, certs) as started:
        yield started, OciPuller(place / "node", certs.ca)


class Artifact:
    """A new artifact in the registry, and what a node says of its signatures."""

    def __init__(self, held: tuple[Registry, OciPuller], name: str) -> None:
        self.registry, self.puller = held
        self.repository = f"team/{name}"
        self.digest = self.registry.bundle(self.repository, {"f": name.encode()})

    async def signer(self, *keys: FileSigner, **params: Any) -> str:
        reference = f"{self.registry.name}/{self.repository}@{self.digest}"
        context = context_of(Verify(reference=reference, **params), self.puller.host(), self.puller.told)
        outcome = await KIND.apply(replace(context, artifact_keys=tuple(key.public.spki_der for key in keys)))
        assert outcome.outputs["sha256"] == self.digest.removeprefix("sha256:")
        return str(outcome.outputs["signed_by"])

    async def failure(self, *keys: FileSigner, **params: Any) -> str:
        with pytest.raises(HostlerError) as failed:
            await self.signer(*keys, **params)
        return failed.value.code


@pytest.mark.parametrize("key", [P256, ED25519], ids=["p256", "ed25519"])
async def test_AR_05_a_cosign_signed_image_passes_and_a_foreign_key_fails(held: Any, key: FileSigner) -> None:
    image = Artifact(held, f"signed{len(key.public.spki_der)}")
    assert await image.failure(key) == "signature_missing"
    sign_image(image.registry, image.repository, image.digest, FOREIGN, key)
    assert await image.signer(key) == key.public.key_id
    assert await image.failure(new_p256()) == "signature_missing"
    assert await image.failure() == "verifier_missing"


async def test_A8_a_signature_moved_from_another_image_or_of_another_kind_does_not_count(held: Any) -> None:
    image, other = Artifact(held, "moved"), Artifact(held, "origin")
    sign_image(image.registry, image.repository, image.digest, P256, payload=simple_signing(other.digest))
    assert await image.failure(P256) == "signature_missing"
    sign_image(image.registry, image.repository, image.digest, P256, payload=simple_signing(image.digest, "atomic"))
    assert await image.failure(P256) == "signature_missing"


async def test_an_attestation_is_found_and_is_no_signature_of_the_image(held: Any) -> None:
    image = Artifact(held, "attested")
    sha256 = image.digest.removeprefix("sha256:")
    attest_image(image.registry, image.repository, image.digest, envelope(statement(sha256), P256))
    asked = {"predicate_types": (SBOM,), "predicate": {"/level": 3}}
    assert await image.signer(P256, **asked) == P256.public.key_id
    assert await image.failure(FOREIGN, **asked) == "signature_missing"
    assert await image.failure(P256, predicate={"/level": 4}) == "signature_missing"
    assert await image.failure(P256) == "signature_missing"


async def test_a_bundle_that_refers_to_the_image_counts_as_its_signature(held: Any) -> None:
    import json

    image = Artifact(held, "referred")
    made = envelope(statement(image.digest.removeprefix("sha256:"), SIGNED_IMAGE), P256)
    refer(image.registry, image.repository, image.digest, bundle(dsseEnvelope=json.loads(made)))
    assert await image.signer(P256) == P256.public.key_id
    assert await image.failure(FOREIGN) == "signature_missing"


async def test_a_reference_and_a_file_are_not_named_together_and_a_tag_never(held: Any, tmp_path: Path) -> None:
    puller = held[1]
    for params in (
        {},
        {"path": "/f"},
        {"reference": "r.example/a:latest"},
        {"path": "/f", "sha256": "0" * 64, "reference": f"r.example/a@sha256:{'0' * 64}"},
    ):
        context = context_of(Verify(**params), puller.host(), puller.told)
        with pytest.raises(HostlerError) as failed:
            await KIND.plan(context)
        assert failed.value.code == "digest_required"
