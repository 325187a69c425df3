"""Receipts, verified by tools that are not ours: securesystemslib (DSSE), in-toto-attestation (Statement), openssl."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from conftest import need
from hostler.base.envelope import CHECKPOINT_TYPE, COUNTERSIGNATURE_TYPE, STATEMENT_TYPE
from hostler.pki.checkpoint import countersign, sign_checkpoint
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.statements import chain_link, refusal_statement, sign_statement, step_statement
from support.keys import NOW
from support.ledger import Ledger

NODE_KEY = new_p256()
LINK = chain_link("nod_1", 0, "")
STEP = {"task_id": "tsk_1", "step_id": "fetch", "status": "succeeded", "started_at_ms": NOW, "outputs": {"bytes": 1}}
FILES = [{"path": "/srv/m.bin", "sha256": "ab" * 32}, {"path": "/srv/gone", "sha256": ""}]
RECEIPTS = {
    "step without files": step_statement(STEP, LINK),
    "step with files": step_statement(STEP | {"files_after": FILES}, LINK),
    "refusal": refusal_statement({"envelope_digest": "cd" * 32, "error_code": "expired"}, LINK),
}
receipts = pytest.mark.parametrize("statement", RECEIPTS.values(), ids=RECEIPTS)


def public(signer: FileSigner) -> Any:
    return serialization.load_der_public_key(signer.public.spki_der)


def referee_key(signer: FileSigner) -> SSlibKey:
    return SSlibKey.from_crypto(public(signer), signer.public.key_id)


@receipts
def test_securesystemslib_verifies_a_receipt_and_no_altered_one(statement: dict[str, Any]) -> None:
    document = msgspec.json.decode(sign_statement(statement, NODE_KEY))
    payload = base64.b64decode(document["payload"])
    altered = document | {"payload": base64.b64encode(payload.replace(b"nod_1", b"nod_2")).decode()}
    kinds = (document, altered, document | {"payloadType": "application/other"})
    envelopes = [Envelope.from_dict(msgspec.json.decode(msgspec.json.encode(each))) for each in kinds]
    assert set(envelopes[0].verify([referee_key(NODE_KEY)], 1)) == {NODE_KEY.public.key_id}
    for bad in envelopes[1:]:
        with pytest.raises(VerificationError):
            bad.verify([referee_key(NODE_KEY)], 1)


@receipts
def test_in_toto_attestation_reads_the_statement_inside_and_finds_it_valid(statement: dict[str, Any]) -> None:
    """Parsed by the framework's own protobuf definition, which refuses a field that it does not know."""
    document = msgspec.json.decode(sign_statement(statement, NODE_KEY))
    assert document["payloadType"] == STATEMENT_TYPE == "application/vnd.in-toto+json"
    read = json_format.Parse(base64.b64decode(document["payload"]), statement_pb2.Statement())
    made = Statement.copy_from_pb(read)
    made.validate()
    assert made.pb.predicate_type == statement["predicateType"]
    assert [dict(each.digest) for each in made.pb.subject] == [each["digest"] for each in statement["subject"]]
    assert json_format.MessageToDict(made.pb.predicate)["chain"]["node_id"] == "nod_1"


def test_the_referee_refuses_a_statement_that_is_none() -> None:
    """So that its consent above means something."""
    bare = RECEIPTS["refusal"] | {"subject": []}
    with pytest.raises(ValueError, match="subject"):
        Statement.copy_from_pb(json_format.ParseDict(bare, statement_pb2.Statement())).validate()


def test_checkpoints_and_countersignatures_are_dsse_for_others_too() -> None:
    ledger = Ledger().grow("nod_1", 2)
    ledger.checkpoint()
    checkpoint, dispatch, witness = ledger.checkpoints[0], ledger.keys.dispatch, new_ed25519()
    for document, signer, kind in (
        (sign_checkpoint(checkpoint, dispatch), dispatch, CHECKPOINT_TYPE),
        (countersign(checkpoint, witness, NOW), witness, COUNTERSIGNATURE_TYPE),
    ):
        envelope = Envelope.from_dict(msgspec.json.decode(document))
        assert envelope.payload_type == kind
        assert set(envelope.verify([referee_key(signer)], 1)) == {signer.public.key_id}


@receipts
def test_openssl_verifies_a_receipt_by_the_specification_alone(statement: dict[str, Any], tmp_path: Path) -> None:
    """The pre-authentication encoding is written here from the DSSE text, not taken from our code."""
    need("openssl")
    document = msgspec.json.decode(sign_statement(statement, NODE_KEY))
    payload, kind = base64.b64decode(document["payload"]), document["payloadType"].encode()
    encoded = b" ".join((b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload))
    key, signature, data = tmp_path / "node.pem", tmp_path / "sig", tmp_path / "pae"
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    key.write_bytes(public(NODE_KEY).public_bytes(serialization.Encoding.PEM, form))
    signature.write_bytes(base64.b64decode(document["signatures"][0]["sig"]))
    for content, answer in ((encoded, 0), (encoded + b" ", 1)):
        data.write_bytes(content)
        words = ["openssl", "dgst", "-sha256", "-verify", str(key), "-signature", str(signature), str(data)]
        assert subprocess.run(words, capture_output=True, check=False).returncode == answer
