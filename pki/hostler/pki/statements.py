"""Receipts as in-toto Statements v1: what a step did, in a form that other tools read too.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from typing import Any

from hostler.base.digest import canonical_json, digest_of
from hostler.base.envelope import STATEMENT_TYPE, Envelope
from hostler.pki import dsse
from hostler.pki.keys import Signer

STATEMENT = "https://in-toto.io/Statement/v1"
STEP_PREDICATE = "https://hostler.dev/receipt/step/v1"
REFUSAL_PREDICATE = "https://hostler.dev/receipt/refusal/v1"
HANDOVER_PREDICATE = "https://hostler.dev/handover/v1"


def chain_link(node_id: str, index: int, previous: str) -> dict[str, Any]:
    """Where a receipt stands: its index (from 0) and the digest of the receipt before it ("" for none)."""
    return {"node_id": node_id, "index": index, "previous": previous}


def step_statement(predicate: dict[str, Any], link: dict[str, Any]) -> dict[str, Any]:
    """A step's receipt. Its subjects are the files afterwards, or the step itself where it left none."""
    files = [entry for entry in predicate.get("files_after", ()) if entry.get("sha256")]
    subjects = [{"name": entry["path"], "digest": {"sha256": entry["sha256"]}} for entry in files]
    if not subjects:
        name = f"{predicate['task_id']}/{predicate['step_id']}"
        subjects = [{"name": name, "digest": {"sha256": digest_of(predicate)}}]
    return _statement(subjects, STEP_PREDICATE, predicate, link)


def refusal_statement(predicate: dict[str, Any], link: dict[str, Any]) -> dict[str, Any]:
    """A refusal's receipt; its subject is the envelope that was refused."""
    subject = {"name": "envelope", "digest": {"sha256": predicate["envelope_digest"]}}
    return _statement([subject], REFUSAL_PREDICATE, predicate, link)


def handover_statement(predicate: dict[str, Any]) -> dict[str, Any]:
    """That a node is clean after an allocation; its subjects are the receipts it rests on."""
    subjects = [
        {"name": f"{link['task_id']}/{link['step_id']}", "digest": {"sha256": link["receipt_digest"]}}
        for link in predicate["receipts"]
    ]
    return {"_type": STATEMENT, "subject": subjects, "predicateType": HANDOVER_PREDICATE, "predicate": predicate}


def sign_statement(statement: dict[str, Any], signer: Signer) -> bytes:
    """DSSE JSON over the statement's canonical bytes."""
    envelope: Envelope = dsse.sign(canonical_json(statement), STATEMENT_TYPE, [signer])
    return dsse.to_json(envelope)


def _statement(
    subjects: list[dict[str, Any]], kind: str, predicate: dict[str, Any], link: dict[str, Any]
) -> dict[str, Any]:
    return {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": kind,
        "predicate": predicate | {"chain": link},
    }
