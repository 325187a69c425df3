"""Outcome → signed statement in its place in the chain. Called inside the journal's transaction."""

from typing import Any

import msgspec

from hostler.agent.journal.rows import ChainHead, Refusable
from hostler.agent.secrets.table import Ending
from hostler.agent.steps.contract import Outcome
from hostler.base.digest import sha256_hex
from hostler.pki.keys import FileSigner
from hostler.pki.statements import chain_link, handover_statement, refusal_statement, sign_statement, step_statement
from hostler.wire.report import Artifact, StepReport
from hostler.wire.task import StepSpec, TaskSpec

_TASK_FIELDS = (
    "task_id",
    "operation_id",
    "definition_digest",
    "catalog_version",
    "org_id",
    "project_id",
    "allocation_id",
    "attempt_number",
    "attempt_uid",
    "inputs_digest",
    "policy_digest",
    "control_epoch",
    "correlation_id",
    "approved_plan_digest",
)


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt says beside the report.

    Attributes:
        outcome: None for a step that failed and has nothing to tell.
        secrets: those that ended with the step.
        sandbox: what a command was held to, and what it tried beyond.
        command_digest: of the command profile that ran, whether named or resolved.
    """

    envelope_digest: str
    params_digest: str
    plan_digest: str
    outcome: Outcome | None
    secrets: tuple[Ending, ...] = ()
    sandbox: dict[str, Any] = {}
    command_digest: str = ""


class ReceiptMaker:
    """Signs with the node's identity key; nothing else on the node can."""

    def __init__(self, signer: FileSigner, node_id: str, trust_domain: str) -> None:
        self._signer = signer
        self._node_id = node_id
        self._trust_domain = trust_domain

    def step(self, task: TaskSpec, spec: StepSpec, report: StepReport, facts: StepFacts, head: ChainHead) -> bytes:
        """DSSE JSON of the step's receipt."""
        predicate = _task_part(task) | _step_part(spec, report, facts) | _outcome_part(facts.outcome)
        if facts.secrets:
            predicate["secrets"] = msgspec.to_builtins(facts.secrets)
        if facts.sandbox:
            predicate["sandbox"] = facts.sandbox
        if report.artifacts:
            predicate["artifacts"] = [_by_digest(one) for one in report.artifacts]
        predicate["trust_domain"] = self._trust_domain
        return sign_statement(step_statement(predicate, self._link(head)), self._signer)

    def refusal(self, refusal: Refusable, head: ChainHead) -> bytes:
        """DSSE JSON: what was refused, by which gate, and that nothing was done."""
        predicate = {
            "trust_domain": self._trust_domain,
            "envelope_digest": refusal.envelope_digest,
            "authentic": refusal.authentic,
            "subject": "task" if refusal.is_task else "cancel",
            "task_id": refusal.task_id,
            "operation_id": refusal.operation_id,
            "attempt_uid": refusal.attempt_uid,
            "error_code": refusal.error_code,
            "message": refusal.message,
            "gate": refusal.gate,
            "at_ms": refusal.at_ms,
        }
        return sign_statement(refusal_statement(predicate, self._link(head)), self._signer)

    def handover(self, predicate: dict[str, Any]) -> bytes:
        """DSSE JSON: that this node is clean after an allocation."""
        named = predicate | {"node_id": self._node_id, "trust_domain": self._trust_domain}
        return sign_statement(handover_statement(named), self._signer)

    def _link(self, head: ChainHead) -> dict[str, Any]:
        return chain_link(self._node_id, head.index, head.previous)


def _by_digest(one: Artifact) -> dict[str, Any]:
    return {"name": one.name, "kind": one.kind, "sha256": one.sha256, "size_bytes": one.size_bytes, "uri": one.uri}


def _task_part(task: TaskSpec) -> dict[str, Any]:
    part = {name: getattr(task, name) for name in _TASK_FIELDS}
    part["operation_type"] = f"{task.operation_type}@{task.version}"
    return part


def _step_part(spec: StepSpec, report: StepReport, facts: StepFacts) -> dict[str, Any]:
    return {
        "envelope_digest": facts.envelope_digest,
        "step_id": spec.step_id,
        "step_index": report.step_index,
        "step_kind": spec.kind,
        "status": report.status.value,
        "error_code": report.error_code,
        "params_digest": facts.params_digest,
        "plan_digest": facts.plan_digest,
        "resolved_profile": report.resolved_profile,
        "resolved_profile_digest": facts.command_digest,
        "hardware_match": report.hardware_match,
        "output_digest": sha256_hex(report.outputs_json) if report.outputs_json else "",
        "recovered": report.recovered,
        "started_at_ms": report.started_at_ms,
        "finished_at_ms": report.finished_at_ms,
    }


def _outcome_part(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    return {
        "changed": outcome.changed,
        "argv_digest": outcome.argv_digest,
        "exit_status": outcome.exit_status,
        "files_before": msgspec.to_builtins(outcome.files_before),
        "files_after": msgspec.to_builtins(outcome.files_after),
    }
