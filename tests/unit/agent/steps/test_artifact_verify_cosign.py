"""AR-05, SK-03: signatures of files as cosign writes them, against managed keys only; `openssl` is the referee."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.agent.steps.test_artifact_verify import CONTENT, FOREIGN, KEY, SHA256, failure, step

from hostler.agent.steps.artifact_verify import KIND
from hostler.pki.keys import FileSigner, new_p256
from support.cosigned import SBOM, b64, bundle, envelope, statement

P256, OTHER_P256 = new_p256(), new_p256()


def signed(form: str, signer: FileSigner, content: bytes = CONTENT) -> bytes:
    signature = b64(signer.sign(content))
    if form == "bare":
        return signature.encode() + b"\n"
    if form == "blob bundle":
        return f'{{"base64Signature": "{signature}", "cert": "", "rekorBundle": null}}'.encode()
    message = {"messageDigest": {"algorithm": "SHA2_256", "digest": b64(bytes.fromhex(SHA256))}, "signature": signature}
    return bundle(messageSignature=message)


@pytest.mark.parametrize("form", ["bare", "blob bundle", "sigstore bundle"])
@pytest.mark.parametrize("signer", [P256, KEY], ids=["p256", "ed25519"])
async def test_AR_05_each_form_of_a_blob_signature_passes_by_a_managed_key(
    tmp_path: Path, form: str, signer: FileSigner
) -> None:
    context = step(tmp_path, signed(form, signer), keys=(OTHER_P256, signer), required=True)
    assert (await KIND.apply(context)).outputs["signed_by"] == signer.public.key_id


@pytest.mark.parametrize("form", ["bare", "blob bundle", "sigstore bundle"])
async def test_AR_05_a_foreign_key_or_another_file_fails_in_each_form(tmp_path: Path, form: str) -> None:
    for foreign in (OTHER_P256, FOREIGN):
        assert await failure(step(tmp_path, signed(form, foreign), keys=(P256, KEY))) == "signature_missing"
    assert await failure(step(tmp_path, signed(form, P256, b"other"), keys=(P256,))) == "signature_missing"


async def test_A8_a_key_shown_in_the_bundle_itself_is_not_a_managed_key(tmp_path: Path) -> None:
    shown = bundle(messageSignature={"signature": b64(OTHER_P256.sign(CONTENT))}).replace(
        b'"x"', b'"' + b64(OTHER_P256.public.spki_der).encode() + b'"'
    )
    assert await failure(step(tmp_path, shown, keys=(P256,), required=True)) == "signature_missing"
    assert await failure(step(tmp_path, shown, keys=(), required=True)) == "verifier_missing"


async def test_openssl_s_signature_passes(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    (tmp_path / "key.pem").write_bytes(P256.to_pem())
    (tmp_path / "content").write_bytes(CONTENT)
    command = ["openssl", "dgst", "-sha256", "-sign", str(tmp_path / "key.pem"), str(tmp_path / "content")]
    made = subprocess.run(command, check=True, capture_output=True).stdout
    assert (await KIND.apply(step(tmp_path, b64(made).encode(), keys=(P256,)))).outputs["signed_by"]


@pytest.mark.parametrize("kind", ["v1", "v0.1"])
@pytest.mark.parametrize("form", ["envelope", "bundle"])
async def test_an_attestation_has_to_be_of_the_type_and_say_what_is_asked(tmp_path: Path, kind: str, form: str) -> None:
    import json

    made = envelope(statement(SHA256, kind=kind), P256)
    data = made if form == "envelope" else bundle(dsseEnvelope=json.loads(made))
    asked: dict[str, Any] = {"predicate_types": (SBOM,), "predicate": {"/level": 3}}
    assert (await KIND.apply(step(tmp_path, data, keys=(P256,), **asked))).outputs["signed_by"]
    for wrong in (
        {"predicate_types": ("other",)},
        {"predicate": {"/level": 2}},
        {"predicate": {"/level": True}},
        {"predicate": {"/absent": 1}},
        {"predicate": {"/level/deep": 3}},
    ):
        assert await failure(step(tmp_path, data, keys=(P256,), **wrong)) == "signature_missing"
    another = envelope(statement("0" * 64, kind=kind), P256)
    assert await failure(step(tmp_path, another, keys=(P256,))) == "signature_missing"
    assert await failure(step(tmp_path, signed("bare", P256), keys=(P256,), **asked)) == "signature_missing"
    assert await failure(step(tmp_path, keys=(P256,), **asked)) == "signature_missing"


@pytest.mark.parametrize(
    "hostile", [b"{}", b"[]", b"", b"\xff\xfe", b"AAAA", b'{"mediaType": 5}', bundle(), b"{" * 5000]
)
async def test_A8_what_is_no_signature_is_refused(tmp_path: Path, hostile: bytes) -> None:
    assert await failure(step(tmp_path, hostile, keys=(P256, KEY), required=True)) == "signature_missing"
