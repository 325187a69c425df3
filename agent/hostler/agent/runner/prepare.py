"""From a signed step to what its kind gets to see: bindings filled, parameters typed, authority asked."""

import functools
from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.agent.journal.truth import Asker
from hostler.agent.resolver.resolver import Resolved
from hostler.agent.runner.work import Parts, Work, allocation_of, key_of
from hostler.agent.steps.contract import StepKind, StepView
from hostler.agent.steps.table import step_kind
from hostler.base.digest import digest_of
from hostler.base.strict import convert
from hostler.catalog.allowed import check_allowed
from hostler.catalog.auto_executed import check_written, files_of
from hostler.catalog.binding import bind, references
from hostler.catalog.kinds import KINDS
from hostler.pki.keyset import KeyRole
from hostler.wire.task import Policy, StepSpec

Outputs = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Prepared:
    """A step that could be planned, applied or probed now.

    Attributes:
        params_digest: of the kind and its bound parameters; the receipt names it.
        resolved: what an abstract kind is on this node, now.
    """

    index: int
    spec: StepSpec
    kind: StepKind
    view: StepView
    params_digest: str
    resolved: Resolved | None = None


def bound(work: Work, step: StepSpec, outputs: Outputs) -> dict[str, Any]:
    """Raises `binding_error`."""
    params: dict[str, Any] = msgspec.json.decode(step.params_json)
    filled: dict[str, Any] = bind(params, work.inputs, outputs)
    return filled


def params_digest(kind: str, params: dict[str, Any], resolved: Resolved | None = None) -> str:
    """For an abstract kind also of what it resolved to: on other hardware it is another step."""
    if resolved is None:
        return digest_of({"kind": kind, "params": params})
    return digest_of({"kind": kind, "params": params, "profile": resolved.digest, "rule": resolved.rule_id})


def resolved_for(parts: Parts, kind: str) -> Resolved | None:
    """None for a kind that is the same everywhere. Raises `no_resolver`, `config_drift`."""
    return parts.resolver.resolve(kind) if KINDS[kind].abstract else None


def prepare(parts: Parts, work: Work, index: int, outputs: Outputs) -> Prepared:
    """Raises `binding_error`, `local_policy_denied`, `path_denied`, `unknown_step_kind`,
    `package_not_allowed`, `unit_not_allowed`, and as `resolved_for`."""
    task = work.spec
    step = task.steps[index]
    filled = bound(work, step, outputs)
    kind = step_kind(step.kind)
    params = convert(filled, KINDS[step.kind].params, code="binding_error", what=f"step {step.step_id}")
    resolved = resolved_for(parts, step.kind)
    command = resolved.command if resolved else work.commands.get(step.command_profile)
    check_written(step.kind, getattr(params, "path", None), work.definition.auto_executed_paths)
    for path in files_of(params):
        check_written(step.kind, path, work.definition.auto_executed_paths)
    check_allowed(step.kind, params, work.definition)
    parts.authority.check_step(step.kind, params, command)
    whose = allocation_of(work)
    asker = Asker(task.trigger_source, task.org_id, task.project_id)
    view = StepView(
        host=parts.host,
        params=params,
        task_id=task.task_id,
        step_id=step.step_id,
        step_index=index,
        attempt_number=task.attempt_number,
        policy=_policy(work),
        allowed_sources=work.definition.artifacts.allowed_sources,
        command=command,
        hardware_match=resolved.rule_id if resolved else "",
        resolver=parts.resolver,
        local_source=parts.authority.permits_source,
        allowed_packages=parts.authority.permitted_packages(work.definition.allowed_packages),
        checkpoint=parts.journal.checkpoint(key_of(task), step.step_id),
        artifact_keys=_artifact_keys(parts),
        allocation_id=task.allocation_id,
        past=lambda: parts.journal.past(whose.allocation_id if whose else ""),
        operation_id=task.operation_id,
        org_id=task.org_id,
        project_id=task.project_id,
        attempt_uid=task.attempt_uid,
        replica_index=task.replica_index,
        envelope_digest=work.envelope_digest,
        truth=functools.partial(parts.journal.truth, asker=asker),
        sees_all_tasks=asker.sees_all,
        workloads=parts.workloads,
        installed=parts.installed,
    )
    return Prepared(index, step, kind, view, params_digest(step.kind, filled, resolved), resolved)


def waits_for(step: StepSpec, outputs: Outputs) -> str:
    """The id of a step whose outputs this one binds and that has not run; "" when there is none."""
    for reference in sorted(references(msgspec.json.decode(step.params_json))):
        if reference.startswith("steps."):
            step_id = reference.removeprefix("steps.").rpartition(".")[0]
            if step_id not in outputs:
                return step_id
    return ""


def _policy(work: Work) -> Policy:
    """What a definition itself requires of signatures binds its steps whatever their parameters have become (AR-05)."""
    policy, required = work.spec.policy, work.definition.artifacts.require_signature
    return msgspec.structs.replace(policy, require_signature_verification=True) if required else policy


def _artifact_keys(parts: Parts) -> tuple[bytes, ...]:
    trust = parts.trust()
    return tuple(key.spki_der for role in (KeyRole.ARTIFACT, KeyRole.CATALOG) for key in trust.keys(role))
