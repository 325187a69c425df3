"""The gates, in order. Everything that reaches a node passes here, and nothing passes around it."""

from collections.abc import Callable

import msgspec

from hostler.agent.admission import capability, catalog_view, envelope, freshness, policy_gate, target
from hostler.agent.admission.case import Case
from hostler.agent.admission.verdict import Admitted, AdmittedCancel, Proof, Refusal, Replayed
from hostler.agent.admission.view import AdmissionView
from hostler.base.digest import sha256_hex
from hostler.base.envelope import CANCEL_TYPE, Envelope
from hostler.base.errors import HostlerError
from hostler.wire.codec_node import encode_envelope
from hostler.wire.task import CancelSpec, TaskSpec

Gate = Callable[[Case], Replayed | None]

TASK: dict[str, Gate] = {
    "signature": envelope.signature,
    "form": envelope.form,
    "target": target.target,
    "replay": freshness.replay,
    "allocation": target.allocation,
    "epoch": freshness.epoch,
    "freshness": freshness.freshness,
    "sequence": freshness.sequence,
    "storage": freshness.storage,
    "catalog": catalog_view.catalog,
    "inputs": catalog_view.inputs,
    "policy": policy_gate.policy,
    "authority": policy_gate.authority,
    "capability": capability.capability,
}

CANCEL: dict[str, Gate] = {
    name: TASK[name] for name in ("signature", "form", "target", "replay", "epoch", "freshness", "storage")
}

# Every signed field has a gate that answers for it; a test compares this with `TaskSpec`.
FIELD_GATES: dict[str, str] = {
    "task_id": "replay",
    "operation_id": "form",
    "node_id": "target",
    "node_key_thumbprint": "target",
    "operation_type": "catalog",
    "version": "catalog",
    "definition_digest": "catalog",
    "catalog_version": "catalog",
    "org_id": "form",
    "project_id": "form",
    "allocation_id": "allocation",
    "trigger_source": "allocation",
    "attempt_number": "replay",
    "attempt_uid": "replay",
    "replica_index": "form",
    "sequence": "sequence",
    "nonce": "form",
    "not_before_ms": "freshness",
    "expires_at_ms": "freshness",
    "steps": "catalog",
    "inputs_json": "inputs",
    "inputs_digest": "inputs",
    "policy": "policy",
    "policy_digest": "policy",
    "control_epoch": "epoch",
    "correlation_id": "form",
    "traceparent": "form",
    "mode": "form",
    "approved_plan_digest": "form",
    "reused": "form",
    "timeout_seconds": "form",
}


def admit(sent: Envelope, view: AdmissionView, now_ms: int) -> Admitted | AdmittedCancel | Replayed | Refusal:
    """The verdict over one envelope. Pure: the same envelope, view and time give the same verdict.

    Never raises for anything an envelope can hold; a bug of ours raises, and nothing is admitted.
    """
    data = encode_envelope(sent)
    is_task = sent.payload_type != CANCEL_TYPE
    case = Case(sent, view, now_ms, data, sha256_hex(data), is_task)
    passed: list[str] = []
    name = ""
    try:
        for name, gate in (TASK if is_task else CANCEL).items():
            replayed = gate(case)
            if replayed is not None:
                return replayed
            passed.append(name)
    except HostlerError as err:
        return _refusal(case, name, err)
    return _admitted(case, Proof(passed))


def _admitted(case: Case, proof: Proof) -> Admitted | AdmittedCancel:
    if isinstance(case.spec, CancelSpec):
        return AdmittedCancel(proof, case.spec, case.digest)
    assert case.definition is not None
    return Admitted(
        proof,
        case.envelope,
        case.envelope_bytes,
        case.digest,
        case.task,
        case.definition,
        case.commands,
        case.inputs,
        case.view.trust.keyset.version,
    )


def _refusal(case: Case, gate: str, err: HostlerError) -> Refusal:
    """Ids only from a payload that was signed and decoded."""
    spec = case.spec
    refusal = Refusal(
        error_code=err.code,
        message=err.message,
        hint=err.hint,
        gate=gate,
        envelope_digest=case.digest,
        at_ms=case.now_ms,
        authentic=case.authentic,
        addressed=case.addressed,
        is_task=case.is_task,
    )
    if spec is None:
        return refusal
    return msgspec.structs.replace(
        refusal,
        task_id=spec.task_id,
        operation_id=spec.operation_id,
        attempt_uid=spec.attempt_uid,
        attempt_number=spec.attempt_number if isinstance(spec, TaskSpec) else 0,
        sequence=spec.sequence if case.addressed else 0,
        correlation_id=spec.correlation_id,
    )
