"""The effective policy against what would run; the control plane checked it too, we do not rely on that."""

from typing import Any

from hostler.agent.admission.case import Case
from hostler.base.digest import same_digest
from hostler.base.errors import error
from hostler.catalog.allowed import check_allowed
from hostler.catalog.auto_executed import check_written
from hostler.catalog.definition import Definition
from hostler.catalog.policy import allows_source, policy_digest
from hostler.catalog.sources import FETCHING, SOURCES, source_url
from hostler.wire.task import TaskMode

CHOSEN = frozenset({"node", "group"})  # how the control plane chose this node: it cannot be told apart here
PULL, PULL_OCI, VERIFY = "artifact.pull_blob", "artifact.pull_oci", "artifact.verify"


def policy(case: Case) -> None:
    """Raises `policy_denied`, `plan_approval_required`, `source_denied`, `path_denied`, `too_large`,
    `package_not_allowed` or `unit_not_allowed` (AZ-07, AZ-08, T9, J2, SK-05, SK-08)."""
    rules, definition = case.task.policy, case.definition
    assert definition is not None
    if not same_digest(case.task.policy_digest, policy_digest(rules)):
        raise error("malformed_envelope", "the policy does not have the digest named beside it")
    if not rules.enabled:
        raise error("policy_denied", f"policy does not enable {definition.ref} here")
    kinds = CHOSEN | {"allocation"} if case.task.allocation_id else CHOSEN
    if rules.allowed_target_kinds is not None and not kinds.intersection(rules.allowed_target_kinds):
        raise error("policy_denied", f"policy does not allow {definition.ref} on nodes")
    if definition.require_plan_approval and case.task.mode == TaskMode.APPLY and not case.task.approved_plan_digest:
        raise error("plan_approval_required", f"{definition.ref} runs only by a plan that somebody has approved")
    for known in case.known:
        if known.name == "path":
            check_written(known.kind, known.value, definition.auto_executed_paths)
        check_allowed(known.kind, {known.name: known.value}, definition)
        if known.kind in FETCHING and known.name in SOURCES:
            _source(case, source_url(known.name, known.value))
        if known.kind == PULL and known.name == "size_bytes":
            _size(case, known.value)
    if rules.require_signature_verification or definition.artifacts.require_signature:
        _signatures(definition)


def _source(case: Case, url: str) -> None:
    assert case.definition is not None
    sources = case.definition.artifacts.allowed_sources
    if not allows_source(case.task.policy, sources, url):
        shown = url.partition("?")[0]
        raise error("source_denied", f"source {shown} is outside what policy and definition allow")


def _size(case: Case, size: Any) -> None:
    limit = case.task.policy.max_artifact_size_bytes
    if limit and isinstance(size, int) and size > limit:
        raise error("too_large", f"an artifact of {size} bytes is above the policy's {limit}")


def _signatures(definition: Definition) -> None:
    """What is pulled is verified afterwards, by a step that names a signature (SK-03, AR-05: fails closed): of the same
    path, or of the same reference, whose signatures the registry holds."""
    for index, step in enumerate(definition.steps):
        if step.kind not in (PULL, PULL_OCI):
            continue
        later = [s for s in definition.steps[index + 1 :] if s.kind == VERIFY]
        if not any(_checks(verify.params, step.kind, step.params) for verify in later):
            raise error("policy_denied", f"policy requires signatures, and none is checked after step {step.id}")


def _checks(verify: dict[str, Any], kind: str, pulled: dict[str, Any]) -> bool:
    """A detached signature that is pulled as well is checked by being used as one: it signs nothing else."""
    if kind == PULL_OCI:
        return bool(pulled.get("reference")) and verify.get("reference") == pulled.get("reference")
    return bool(verify.get("signature_path")) and pulled.get("path") in (verify.get("path"), verify["signature_path"])


def authority(case: Case) -> None:
    """Raises `local_policy_denied`: root of this node has the last word (AZ-09, EX-09)."""
    local, definition = case.view.authority, case.definition
    assert definition is not None
    local.check_operation(definition.type, definition.version)
    for step in case.task.steps:
        local.check_kind(step.kind, case.commands.get(step.command_profile))
    for known in case.known:
        local.check_value(known.name, known.value)
