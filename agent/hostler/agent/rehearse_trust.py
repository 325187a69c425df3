"""Throwaway trust for one rehearsal: keys, keyset, catalog and one signed task, made in memory and forgotten."""

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hostler.agent.admission.catalog_view import facts_of
from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.envelope import KEYSET_TYPE, TASK_TYPE, Envelope
from hostler.base.errors import error
from hostler.catalog.definition import Definition
from hostler.catalog.lint import lint
from hostler.catalog.load import Profiles, load_profiles
from hostler.catalog.manifest import Catalog, make_manifest, open_catalog
from hostler.catalog.policy import policy_digest
from hostler.catalog.proposal import propose, sign
from hostler.catalog.used_profiles import profiles_of
from hostler.pki import dsse
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key, keyset_payload
from hostler.pki.trust import TrustState, TrustStore
from hostler.wire.codec_task import encode_task
from hostler.wire.task import Policy, TaskMode, TaskSpec

NODE, DOMAIN = "nod_rehearsal", "rehearsal.invalid"
LIFETIME_MS = 3_600_000
_EARLY_MS = 1000
_ROLES = (KeyRole.ROOT, KeyRole.DISPATCH, KeyRole.CATALOG, KeyRole.ARTIFACT, KeyRole.DESTRUCTIVE)


class Trust(NamedTuple):
    """One key plays every part but the node's: nothing outside this process knows either."""

    store: TrustStore
    authority: FileSigner
    node: FileSigner


def make_trust(now_ms: int) -> Trust:
    """Good for an hour."""
    key, node = new_ed25519(), new_p256()
    keyset = Keyset(
        version=1,
        trust_domain=DOMAIN,
        issued_ms=now_ms,
        expires_ms=now_ms + LIFETIME_MS,
        keys={key.public.key_id: encode_key(key.public)},
        roles={role.value: RoleKeys(1, (key.public.key_id,)) for role in _ROLES},
        ca_certificates=(),
    )
    state = TrustState(
        trust_domain=DOMAIN,
        root_keys=(base64.b64encode(key.public.spki_der).decode(),),
        root_threshold=1,
        keyset=dsse.to_json(dsse.sign(keyset_payload(keyset), KEYSET_TYPE, [key])),
    )
    return Trust(TrustStore(state, now_ms), key, node)


def read_linted(directory: Path, ref: str) -> tuple[Definition, Profiles]:
    """The definition, and the profiles directory narrowed to it: others in there may be unfinished.

    Raises:
        HostlerError: `unknown_definition`; `invalid_yaml`, or `invalid_definition` with the first finding's place.
    """
    found = load_profiles(directory)
    chosen = [pair for pair in found.definitions if pair[0].ref == ref]
    if not chosen:
        known = ", ".join(definition.ref for definition, _ in found.definitions)
        raise error("unknown_definition", f"{directory} has no definition {ref}", hint=f"it has {known or 'none'}")
    definition, source = chosen[0]
    profiles = Profiles(definitions=tuple(chosen), commands=found.commands, resolvers=found.resolvers)
    used = {name for step in definition.steps for name in profiles_of(step)}
    files = {source.file, *(where.file for command, where in found.commands if command.id in used)}
    for finding in lint(profiles):
        if finding.file in files:
            message = f"{finding.file}:{finding.line}: [{finding.rule}] {finding.message}"
            raise error("invalid_definition", message, hint=finding.hint or "run 'hostler profiles lint'")
    return definition, profiles


def make_catalog(trust: Trust, definition: Definition, profiles: Profiles, now_ms: int) -> Catalog:
    """Signed and opened again as a node does it, approvals included."""
    commands, configs = tuple(command for command, _ in profiles.commands), profiles.configs
    manifest = make_manifest(1, [definition], commands, configs, now_ms=now_ms, lifetime_ms=LIFETIME_MS)
    signed = sign(propose(manifest, [definition], commands, resolvers=configs.values()), [trust.authority])
    approvals = tuple(dsse.to_json(approval) for approval in signed.approvals.values())
    return open_catalog(dsse.to_json(signed.manifest), (*signed.documents, *approvals), trust.store, now_ms)


def make_task(
    trust: Trust,
    catalog: Catalog,
    inputs: Mapping[str, Any],
    mode: TaskMode,
    sequence: int,
    now_ms: int,
    approved_plan: str = "",
) -> Envelope:
    """What an honest control plane would send of the catalog's one definition."""
    (ref,) = catalog.definitions
    facts = facts_of(catalog, ref)
    inputs_json, policy = canonical_json(dict(inputs)), Policy()
    spec = TaskSpec(
        task_id=f"tsk_rehearsal_{sequence}",
        operation_id="op_rehearsal",
        node_id=NODE,
        node_key_thumbprint=trust.node.public.key_id,
        operation_type=facts.definition.type,
        version=facts.definition.version,
        definition_digest=facts.definition.digest(),
        catalog_version=catalog.version,
        org_id="rehearsal",
        project_id="rehearsal",
        attempt_uid=f"att_rehearsal_{sequence}",
        sequence=sequence,
        nonce=secrets.token_bytes(16),
        not_before_ms=now_ms - _EARLY_MS,
        expires_at_ms=now_ms + LIFETIME_MS // 2,
        steps=facts.steps,
        inputs_json=inputs_json,
        inputs_digest=sha256_hex(inputs_json),
        policy=policy,
        policy_digest=policy_digest(policy),
        control_epoch=1,
        correlation_id="cor_rehearsal",
        mode=mode,
        approved_plan_digest=approved_plan,
    )
    return dsse.sign(encode_task(spec), TASK_TYPE, [trust.authority])
