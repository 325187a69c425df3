"""The second key: what runs is what the catalog keys signed, and nothing the dispatch key added (SE-08)."""

import re
from typing import Any, NamedTuple

from hostler.agent.admission.case import Case
from hostler.agent.admission.known import Open, guarded, known
from hostler.base.digest import canonical_json, same_digest, sha256_hex
from hostler.base.errors import error
from hostler.base.strict import decode_canonical
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.inputs import check_inputs, with_defaults
from hostler.catalog.kinds import KINDS
from hostler.catalog.manifest import Catalog
from hostler.catalog.used_profiles import EXEC, profiles_of
from hostler.wire.task import StepSpec

_LONG_NUMBER = re.compile(rb"[0-9]{19}")


class Facts(NamedTuple):
    """What a definition comes to under one catalog, worked out once.

    Attributes:
        steps: exactly what a task must carry.
        commands: the command profiles those steps name.
        guarded: the parameters that policy and local authority look at.
    """

    definition: Definition
    steps: tuple[StepSpec, ...]
    commands: dict[str, CommandProfile]
    guarded: tuple[Open, ...]


_slot: tuple[Catalog | None, dict[str, Facts]] = (None, {})


def facts_of(catalog: Catalog, ref: str) -> Facts:
    """Raises `catalog_mismatch` for a definition that the catalog lacks or that does not hold together."""
    global _slot
    if _slot[0] is not catalog:  # a memo of the catalog in force; identity, so nothing stale can match
        _slot = (catalog, {})
    known = _slot[1]
    if ref not in known:
        known[ref] = _work_out(catalog, ref)
    return known[ref]


def _work_out(catalog: Catalog, ref: str) -> Facts:
    definition = catalog.definitions.get(ref)
    if definition is None:
        raise error("catalog_mismatch", f"the signed catalog of this node has no definition {ref}")
    steps, commands = [], {}
    for template in definition.steps:
        if template.kind not in KINDS:
            raise error("unknown_step_kind", f"step {template.id} of {ref} has a kind unknown to this agent")
        profile = _profile(catalog, template)
        if profile is not None:
            commands[profile.id] = profile
        digest = catalog.manifest.commands[profile.id] if profile else ""
        steps.append(
            StepSpec(
                step_id=template.id,
                kind=template.kind,
                params_json=canonical_json(template.params),
                timeout_seconds=template.timeout_seconds,
                reusable=template.reusable,
                command_profile=profile.id if profile else "",
                command_digest=digest,
            )
        )
    return Facts(definition, tuple(steps), commands, guarded(definition))


def _profile(catalog: Catalog, template: StepTemplate) -> CommandProfile | None:
    names = profiles_of(template)
    if not names and template.kind != EXEC:
        return None
    profile = catalog.commands.get(names[0]) if len(names) == 1 else None
    if profile is None:
        raise error("catalog_mismatch", f"step {template.id} names no command profile of the signed catalog")
    return profile


def catalog(case: Case) -> None:
    """Raises `catalog_mismatch`, `catalog_stale`, or `unknown_step_kind` (SK-18, EX-09)."""
    task, held = case.task, case.view.catalog
    ref = f"{task.operation_type}@{task.version}"
    if held is None:
        raise error("catalog_mismatch", f"this node has no signed catalog, so no definition {ref}")
    if case.now_ms >= held.manifest.expires_ms:
        raise error("catalog_stale", f"catalog version {held.manifest.version} has expired")
    if task.catalog_version > held.manifest.version:
        raise error(
            "catalog_mismatch",
            f"the task needs catalog version {task.catalog_version}, this node has {held.manifest.version}",
        )
    facts = facts_of(held, ref)
    if not same_digest(task.definition_digest, held.manifest.definitions[ref]):
        raise error("catalog_mismatch", f"the task's definition {ref} differs from the signed catalog's")
    if task.steps != facts.steps:
        raise error("catalog_mismatch", f"the task's steps differ from those of {ref} {_where(task.steps, facts)}")
    case.definition, case.commands, case.guarded = facts.definition, facts.commands, facts.guarded


def _where(steps: tuple[StepSpec, ...], facts: Facts) -> str:
    for index, (sent, signed) in enumerate(zip(steps, facts.steps, strict=False)):
        if sent != signed:
            return f"at step {index}"
    return f"in number: {len(steps)} instead of {len(facts.steps)}"


def inputs(case: Case) -> None:
    """Raises `malformed_envelope` or `input_schema`: checked here again, whatever was checked before."""
    task, definition = case.task, case.definition
    assert definition is not None
    if not same_digest(task.inputs_digest, sha256_hex(task.inputs_json)):
        raise error("malformed_envelope", "the inputs do not have the digest named beside them")
    values = decode_canonical(task.inputs_json, code="malformed_envelope", what="inputs")
    if not isinstance(values, dict):
        raise error("input_schema", "the inputs are no object")
    if _LONG_NUMBER.search(task.inputs_json) and not _fits_64_bits(values):
        raise error("malformed_envelope", "the inputs hold a number that others would read differently")
    check_inputs(definition.inputs, values)
    case.inputs = with_defaults(definition.inputs, values)
    case.known = known(case.guarded, case.inputs)


def _fits_64_bits(value: Any) -> bool:
    """Larger integers are rounded by some readers and not by others (T5)."""
    if isinstance(value, dict):
        return all(_fits_64_bits(item) for item in value.values())
    if isinstance(value, list):
        return all(_fits_64_bits(item) for item in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63
