"""SK-03: digest and signature, and no whenever there is doubt (A3, A8)."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps.artifact_verify import KIND, PAYLOAD_TYPE, STATEMENT_TYPE
from hostler.agent.steps.contract import StepContext, Truth
from hostler.base.errors import HostlerError
from hostler.catalog.params.artifact import Verify
from hostler.pki import dsse
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.wire.task import Policy
from support.steps import Told, context_of

CONTENT = b"model" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KEY, FOREIGN = new_ed25519(), new_ed25519()


def signature(
    *signers: FileSigner, sha256: str = SHA256, kind: str = STATEMENT_TYPE, type_: str = PAYLOAD_TYPE
) -> bytes:
    statement = {"_type": kind, "subject": [{"name": "m", "digest": {"sha256": sha256}}], "predicateType": "x"}
    return dsse.to_json(dsse.sign(json.dumps(statement).encode(), type_, signers))


def step(root: Path, signed: bytes | None = None, keys: tuple[FileSigner, ...] = (KEY,), **fields: Any) -> StepContext:
    (root / "file").write_bytes(CONTENT)
    policy = Policy(require_signature_verification=fields.pop("required", False))
    if signed is not None:
        (root / "file.sig").write_bytes(signed)
        fields.setdefault("signature_path", "/file.sig")
    params = Verify(**{"path": "/file", "sha256": SHA256, **fields})
    made = context_of(params, Host(root=root), Told(), policy=policy)
    return replace(made, artifact_keys=tuple(key.public.spki_der for key in keys))


async def failure(context: StepContext) -> str:
    with pytest.raises(HostlerError) as failed:
        await KIND.apply(context)
    return failed.value.code


async def test_a_file_with_the_right_digest_and_size_passes(tmp_path: Path) -> None:
    outcome = await KIND.apply(step(tmp_path, size_bytes=len(CONTENT)))
    assert outcome.outputs == {"path": "/file", "sha256": SHA256, "size_bytes": len(CONTENT)}
    assert not outcome.changed
    assert outcome.files_after[0].sha256 == SHA256


async def test_A3_the_right_size_with_wrong_bytes_is_a_digest_mismatch(tmp_path: Path) -> None:
    context = step(tmp_path, size_bytes=len(CONTENT))
    (tmp_path / "file").write_bytes(b"M" + CONTENT[1:])
    assert await failure(context) == "digest_mismatch"


async def test_another_size_is_named(tmp_path: Path) -> None:
    assert await failure(step(tmp_path, size_bytes=1)) == "size_mismatch"


async def test_an_absent_file_fails(tmp_path: Path) -> None:
    assert await failure(step(tmp_path, path="/absent")) == "file_error"


@pytest.mark.parametrize("signer", [KEY, new_p256()], ids=["ed25519", "p256"])
async def test_a_signature_by_a_key_of_the_keyset_passes_and_names_the_key(tmp_path: Path, signer: FileSigner) -> None:
    context = step(tmp_path, signature(FOREIGN, signer), keys=(FOREIGN, signer)[1:], required=True)
    assert (await KIND.apply(context)).outputs["signed_by"] == signer.public.key_id


@pytest.mark.parametrize("required", [True, False])
async def test_SK_03_a_foreign_or_wrong_signature_is_refused_whenever_one_is_named(
    tmp_path: Path, required: bool
) -> None:
    wrong = {
        "foreign key": signature(FOREIGN),
        "no signature": signature(),
        "another file": signature(KEY, sha256="0" * 64),
        "another statement": signature(KEY, kind="https://example.org/x"),
        "another payload": signature(KEY, type_="application/json"),
        "no envelope": b"{}",
        "empty": b"",
        "altered": signature(KEY).replace(b'"sig":"', b'"sig":"AAAA'),
    }
    for name, signed in wrong.items():
        assert await failure(step(tmp_path, signed, required=required)) == "signature_missing", name


async def test_SK_03_an_unsigned_file_is_refused_where_policy_wants_a_signature(tmp_path: Path) -> None:
    assert await failure(step(tmp_path, required=True)) == "signature_missing"
    assert await failure(step(tmp_path, required=True, signature_path="/absent.sig")) == "signature_missing"


async def test_A8_without_a_key_nothing_passes(tmp_path: Path) -> None:
    """SK-03: the verifier is absent."""
    assert await failure(step(tmp_path, signature(KEY), keys=(), required=True)) == "verifier_missing"
    assert await failure(step(tmp_path, signature(KEY), keys=())) == "verifier_missing"


async def test_a_signature_does_not_make_a_wrong_file_right(tmp_path: Path) -> None:
    context = step(tmp_path, signature(KEY), required=True)
    (tmp_path / "file").write_bytes(b"other")
    assert await failure(context) == "digest_mismatch"


async def test_a_cancelled_or_late_step_stops_hashing(tmp_path: Path) -> None:
    context = step(tmp_path)
    assert await failure(replace(context, deadline=replace(context.deadline, at=0.0))) == "timeout"
    context.cancelled.set()
    assert await failure(context) == "canceled"


async def test_progress_counts_bytes(tmp_path: Path) -> None:
    told = Told()
    context = replace(step(tmp_path), progress=lambda done, total, unit: told.progress.append((done, total, unit)))
    await KIND.apply(context)
    assert told.progress == [(len(CONTENT), len(CONTENT), "bytes")]


async def test_plan_and_probe_read_nothing(tmp_path: Path) -> None:
    context = step(tmp_path, path="/absent")
    (change,) = (await KIND.plan(context)).changes
    assert (change.action, change.target) == ("check", "/absent")
    assert (await KIND.probe(context)).truth == Truth.NOT_DONE
