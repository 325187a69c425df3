"""A task found in the journal after a restart: what it was, and how far it came."""

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.agent.journal.journal import Journal
from hostler.agent.journal.rows import StoredStep, StoredTask
from hostler.agent.journal.steps import INTENT
from hostler.agent.runner.prepare import Outputs
from hostler.base.envelope import Envelope
from hostler.base.errors import error
from hostler.catalog.command_profile import CommandProfile, command_profile_from
from hostler.catalog.definition import Definition, definition_from
from hostler.catalog.inputs import with_defaults
from hostler.catalog.manifest import Catalog
from hostler.wire.codec_node import decode_envelope
from hostler.wire.codec_task import decode_task
from hostler.wire.report import StepStatus
from hostler.wire.task import TaskSpec

_STANDS = (StepStatus.SUCCEEDED.value, StepStatus.REUSED.value)


@dataclass(frozen=True, eq=False)
class Recovered:
    """It was admitted before it was stored; `keyset_version` 0 has its signature checked again."""

    envelope: Envelope
    envelope_digest: str
    spec: TaskSpec
    definition: Definition
    commands: dict[str, CommandProfile]
    inputs: dict[str, Any]
    keyset_version: int = 0


def recover(stored: StoredTask, catalog: Catalog | None, journal: Journal) -> Recovered:
    """Raises `catalog_mismatch` when a document the task needs is gone."""
    envelope = decode_envelope(stored.envelope)
    spec = decode_task(envelope.payload)
    commands = {
        step.command_profile: _command(step.command_profile, step.command_digest, catalog, journal)
        for step in spec.steps
        if step.command_profile
    }
    definition = _definition(spec, catalog, journal)
    return Recovered(
        envelope,
        stored.envelope_digest,
        spec,
        definition,
        commands,
        with_defaults(definition.inputs, msgspec.json.decode(spec.inputs_json)),
    )


def _definition(spec: TaskSpec, catalog: Catalog | None, journal: Journal) -> Definition:
    """By digest: the catalog may have moved on while the task ran."""
    ref = f"{spec.operation_type}@{spec.version}"
    if catalog is not None and catalog.manifest.definitions.get(ref) == spec.definition_digest:
        return catalog.definitions[ref]
    body = journal.document(spec.definition_digest)
    if body is None:
        raise error("catalog_mismatch", f"definition {ref} of the interrupted task is not on this node any more")
    return definition_from(msgspec.json.decode(body), ref)


def _command(name: str, digest: str, catalog: Catalog | None, journal: Journal) -> CommandProfile:
    if catalog is not None and catalog.manifest.commands.get(name) == digest:
        return catalog.commands[name]
    body = journal.document(digest)
    if body is None:
        raise error("catalog_mismatch", f"command profile {name} of the interrupted task is not here any more")
    return command_profile_from(msgspec.json.decode(body), name)


def outputs_of(stored: StoredTask) -> Outputs:
    """What the steps that stand have left for later ones to bind."""
    return {
        step.step_id: msgspec.json.decode(step.outputs_json) if step.outputs_json else {}
        for step in stored.steps
        if step.state in _STANDS
    }


def open_intent(stored: StoredTask) -> StoredStep | None:
    """The step that was being applied; there is at most one, because steps run in order (OP-03)."""
    return next((step for step in stored.steps if step.state == INTENT), None)
