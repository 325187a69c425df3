"""Definitions: registered from a signed catalog, immutable, retired in order (OP-01, OP-18, DM-01, DM-02)."""

import msgspec

from hostler.base.digest import sha256_hex
from hostler.base.errors import error
from hostler.catalog.definition import Definition
from hostler.catalog.kinds import KINDS
from hostler.catalog.manifest import Catalog
from hostler.catalog.shell_text import foreign_params, shell_of
from hostler.control.kernel import changes, events
from hostler.control.kernel.commands import Actor, DescribeDefinition, RegisterCatalog, SetDefinitionState
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import CatalogRow, DefinitionRow, DocumentRow, EventRow, OperationTypeRow
from hostler.control.kernel.transitions import DEFINITION, DEFINITION_STATES

replace = msgspec.structs.replace
_WORDS = ("description", "default_channel", "deprecation_note")


def register(draft: Draft, command: RegisterCatalog, catalog: Catalog) -> Decision:
    """→ the newly registered `type@version`s. `catalog` is what the command's bytes proved to be."""
    current = draft.view.current_catalog()
    if current is not None and current.manifest == command.manifest:
        return draft.decision([])
    version = catalog.manifest.version
    if draft.get(CatalogRow, version) is not None:
        raise error("catalog_rollback", f"there was a catalog {version} already, with another content")
    for definition in catalog.definitions.values():
        _check_kinds(definition)
    for profile in catalog.commands.values():
        if shell := shell_of(profile):
            raise error("invalid_definition", f"command profile {profile.id} hands text to {shell} (OP-11)")
    added = [ref for ref in catalog.definitions if _add(draft, catalog.definitions[ref], version)]
    digests = [sha256_hex(document) for document in catalog.documents]
    draft.insert(
        CatalogRow(
            version=version,
            manifest=catalog.manifest_envelope,
            documents=events.json_text(digests),
            commands=events.json_text(catalog.manifest.commands),
            issued_ms=catalog.manifest.issued_ms,
            expires_ms=catalog.manifest.expires_ms,
            registered_at_ms=draft.now_ms,
        )
    )
    for digest, document in zip(digests, catalog.documents, strict=True):
        if draft.get(DocumentRow, digest) is None:
            draft.insert(DocumentRow(digest, document))
    draft.events.append(
        events.admin_event(
            "catalog.registered",
            f"catalogs/{version}",
            draft.now_ms,
            actor=command.actor,
            action="catalog.register",
            change=changes.Change(
                {"version": current.version} if current else None, {"version": version, "definitions": added}
            ),
            version=version,
            definitions=added,
        )
    )
    return draft.decision(added)


def _check_kinds(definition: Definition) -> None:
    """Raises `unknown_step_kind` for a step that no agent could run: refused, never skipped (SK-18). No backend has
    commands but by command profile, and no step takes a script beside its parameters: `invalid_definition` (OP-11).
    """
    for step in definition.steps:
        where = f"step {step.id} of {definition.ref}"
        if step.kind in KINDS:
            if foreign := foreign_params(step):
                raise error("invalid_definition", f"{where}: {step.kind} has no parameter {foreign[0]!r}")
        elif definition.backend_type == "node_agent" or step.kind.startswith("command."):
            raise error("unknown_step_kind", f"{where} has the kind {step.kind}, which is none")


def _add(draft: Draft, definition: Definition, catalog_version: int) -> bool:
    """Files a definition; one that is known must be the same (OP-01)."""
    known = draft.get(DefinitionRow, definition.ref)
    digest = definition.digest()
    if known is not None:
        if known.digest != digest:
            raise error("definition_exists", f"{definition.ref} is registered with another content")
        draft.update(replace(known, catalog_version=catalog_version))
        return False
    draft.insert(
        DefinitionRow(
            ref=definition.ref,
            operation_type=definition.type,
            version=definition.version,
            backend_type=definition.backend_type,
            digest=digest,
            document=definition.canonical().decode(),
            total_steps=len(definition.steps),
            catalog_version=catalog_version,
            registered_at_ms=draft.now_ms,
        )
    )
    row = OperationTypeRow(
        operation_type=definition.type,
        backend_type=definition.backend_type,
        description=definition.description,
        latest_version=definition.version,
        state="active",
        registered_at_ms=draft.now_ms,
    )
    if draft.get(OperationTypeRow, definition.type) is None:
        draft.insert(row)
    else:
        draft.update(row)
    return True


def set_state(draft: Draft, command: SetDefinitionState) -> Decision:
    """active → deprecated → retired; running operations finish whatever the state (OP-18)."""
    row = draft.get(DefinitionRow, command.ref)
    if row is None:
        raise error("not_found", f"no operation {command.ref} is registered")
    if command.state not in DEFINITION_STATES:
        raise error("invalid_request", f"a definition cannot be {command.state!r}", pointer="/state")
    if row.state == command.state:
        return draft.decision()
    if (row.state, command.state) not in DEFINITION:
        raise error("definition_retired", f"{command.ref} is {row.state} and cannot become {command.state}")
    draft.update(replace(row, state=command.state))
    type_row = draft.get(OperationTypeRow, row.operation_type)
    if type_row is not None and type_row.latest_version == row.version:
        draft.update(replace(type_row, state=command.state))
    draft.events.append(_state_event(draft, command.actor, row, command.state))
    return draft.decision()


def describe(draft: Draft, command: DescribeDefinition) -> Decision:
    """New words about a version; what it does stays as it was signed (OP-01, API-02)."""
    row = draft.get(DefinitionRow, command.ref)
    if row is None:
        raise error("not_found", f"no operation {command.ref} is registered")
    asked = {name: getattr(command, name) for name in _WORDS}
    said = {name: value for name, value in asked.items() if value not in (None, getattr(row, name))}
    if not said:
        return draft.decision()
    draft.update(replace(row, **said))
    draft.events.append(
        events.admin_event(
            "definition.changed",
            f"definitions/{row.ref}",
            draft.now_ms,
            actor=command.actor,
            action="definition.patch",
            change=changes.between({name: getattr(row, name) for name in said}, said),
        )
    )
    return draft.decision()


def _state_event(draft: Draft, actor: Actor, row: DefinitionRow, state: str) -> EventRow:
    return events.admin_event(
        "definition.state_changed",
        f"definitions/{row.ref}",
        draft.now_ms,
        actor=actor,
        action="definition.set_state",
        change=changes.between({"state": row.state}, {"state": state}),
    )
