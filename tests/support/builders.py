"""Definitions, catalogs, signed tasks and admission views, each with what a test does not care about filled in."""

import itertools
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.catalog_view import facts_of
from hostler.agent.admission.view import AdmissionView
from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.envelope import CANCEL_TYPE, TASK_TYPE, Envelope
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.manifest import Catalog, make_manifest, open_catalog
from hostler.catalog.policy import policy_digest
from hostler.catalog.proposal import propose, sign
from hostler.catalog.resolver import ResolverConfig
from hostler.pki import dsse
from hostler.wire.codec_task import encode_cancel, encode_task
from hostler.wire.task import CancelSpec, Policy, TaskSpec
from support.keys import NOW, YEAR_MS, Keys

NODE = "nod_a"
ANY_INPUTS: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
_count = itertools.count(1)


def render_step(step_id: str = "write", path: str = "/srv/app/config", **params: Any) -> StepTemplate:
    """A `file.render` step."""
    return StepTemplate(id=step_id, kind="file.render", params={"path": path, "template": "hello\n", **params})


def definition(
    *steps: StepTemplate, type_: str = "demo.write", inputs: dict[str, Any] | None = None, **more: Any
) -> Definition:
    """`demo.write@v1` with one `file.render` step, unless told otherwise."""
    return Definition(
        **{
            "type": type_,
            "version": "v1",
            "inputs": inputs if inputs is not None else ANY_INPUTS,
            "steps": steps or (render_step(),),
            "capabilities": {},
            **more,
        }
    )


def catalog_bundle(
    keys: Keys,
    definitions: Iterable[Definition],
    commands: Iterable[CommandProfile] = (),
    *,
    version: int = 1,
    resolvers: Mapping[str, ResolverConfig] | None = None,
    signers: Sequence[Any] = (),
    lifetime_ms: int = YEAR_MS,
) -> tuple[bytes, tuple[bytes, ...]]:
    """Manifest (DSSE JSON) and documents with what approvals they need, by the catalog key unless told otherwise."""
    definitions, commands = tuple(definitions), tuple(commands)
    manifest = make_manifest(version, definitions, commands, resolvers or {}, now_ms=NOW, lifetime_ms=lifetime_ms)
    signed = sign(
        propose(manifest, definitions, commands, resolvers=(resolvers or {}).values()), signers or [keys.catalog]
    )
    approvals = tuple(dsse.to_json(approval) for approval in signed.approvals.values())
    return dsse.to_json(signed.manifest), (*signed.documents, *approvals)


def catalog(keys: Keys, *definitions: Definition, commands: Iterable[CommandProfile] = (), **more: Any) -> Catalog:
    """A verified catalog of `definitions`, or of the default one."""
    manifest, documents = catalog_bundle(keys, definitions or (definition(),), commands, **more)
    return open_catalog(manifest, documents, keys.trust(), NOW)


def task(
    keys: Keys, catalog_: Catalog, *, ref: str = "", inputs: dict[str, Any] | None = None, **changes: Any
) -> TaskSpec:
    """What an honest control plane would send: of the catalog's first definition, for this node, now."""
    ref = ref or next(iter(catalog_.definitions))
    facts = facts_of(catalog_, ref)
    number = next(_count)
    inputs_json = canonical_json(inputs or {})
    policy = changes.pop("policy", Policy())
    values: dict[str, Any] = {
        "task_id": f"tsk_{number:06}",
        "operation_id": f"op_{number:06}",
        "node_id": NODE,
        "node_key_thumbprint": keys.thumbprint,
        "operation_type": facts.definition.type,
        "version": facts.definition.version,
        "definition_digest": facts.definition.digest(),
        "catalog_version": catalog_.version,
        "org_id": "acme",
        "project_id": "train",
        "attempt_uid": f"att_{number:06}",
        "sequence": number,
        "nonce": secrets.token_bytes(16),
        "not_before_ms": NOW - 1000,
        "expires_at_ms": NOW + 600_000,
        "steps": facts.steps,
        "inputs_json": inputs_json,
        "inputs_digest": sha256_hex(inputs_json),
        "policy": policy,
        "policy_digest": policy_digest(policy),
        "control_epoch": 1,
        "correlation_id": f"cor_{number:06}",
    }
    return TaskSpec(**(values | changes))


def envelope(keys: Keys, spec: TaskSpec | CancelSpec, signer: Any = None) -> Envelope:
    """Signed by the dispatch key unless told otherwise."""
    signer = signer or keys.dispatch
    if isinstance(spec, CancelSpec):
        return dsse.sign(encode_cancel(spec), CANCEL_TYPE, [signer])
    return dsse.sign(encode_task(spec), TASK_TYPE, [signer])


def cancel(of: TaskSpec, **changes: Any) -> CancelSpec:
    """An honest cancel of that task."""
    names = set(CancelSpec.__struct_fields__) & set(TaskSpec.__struct_fields__)
    values = {name: getattr(of, name) for name in names}
    return CancelSpec(**(values | {"sequence": next(_count), "nonce": secrets.token_bytes(16)} | changes))


def view(keys: Keys, catalog_: Catalog | None, journal: Any = None, **changes: Any) -> AdmissionView:
    """This node, in good health; with what `journal` knows, if there is one."""
    values: dict[str, Any] = {
        "node_id": NODE,
        "thumbprint": keys.thumbprint,
        "trust": keys.trust(),
        "catalog": catalog_,
        "authority": LocalAuthority(),
        "high_sequence": journal.high_sequence if journal else 0,
        "control_epoch": max(1, journal.control_epoch) if journal else 1,
        "held": journal.held if journal else False,
        "known": journal.known if journal else lambda task_id: None,
        "storage": journal.storage if journal else "ok",
        "binding": journal.binding if journal else None,
    }
    return AdmissionView(**(values | changes))


def changed(spec: TaskSpec, **changes: Any) -> TaskSpec:
    """Another task that differs in just that."""
    return msgspec.structs.replace(spec, **changes)
