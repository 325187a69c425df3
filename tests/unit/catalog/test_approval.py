"""What destroys or runs as root is approved by m of n, or it is in no catalog that anybody opens."""

from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.approval import needs_approval
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.catalog.manifest import make_manifest, open_catalog
from hostler.catalog.proposal import Proposal, changes, merge, propose, read_proposal, sign, standing
from hostler.pki.keys import FileSigner, new_ed25519
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key
from hostler.pki.trust import TrustState, TrustStore
from support.builders import definition
from support.keys import DOMAIN, NOW

YEAR = 365 * 86_400_000
ROOT, CATALOG, ANN, BOB, EVE = (new_ed25519() for _ in range(5))


def keyset(approvers: tuple[FileSigner, ...] = (CATALOG, ANN, BOB), threshold: int = 2) -> Keyset:
    everybody = (ROOT, CATALOG, *approvers)
    roles = {"root": RoleKeys(1, (ROOT.public.key_id,)), "catalog": RoleKeys(1, (CATALOG.public.key_id,))}
    if approvers:
        roles["destructive"] = RoleKeys(threshold, tuple(signer.public.key_id for signer in approvers))
    return Keyset(
        version=1,
        trust_domain=DOMAIN,
        issued_ms=NOW,
        expires_ms=NOW + YEAR,
        keys={signer.public.key_id: encode_key(signer.public) for signer in everybody},
        roles=roles,
        ca_certificates=(),
    )


def trust(of: Keyset | None = None) -> TrustStore:
    from hostler.pki.ceremony import sign_keyset

    signed = sign_keyset(of or keyset(), [ROOT])
    state = TrustState(trust_domain=DOMAIN, root_keys=(encode_key(ROOT.public),), root_threshold=1, keyset=signed)
    return TrustStore(state, NOW)


WIPE = CommandProfile(id="wipe", command="/usr/sbin/wipe", run_as="root", timeout_seconds=5)
STEP = {"id": "wipe", "kind": "command.exec_allowlisted", "params": {"profile": "wipe", "args": {}}}


def destroying(**changes: Any) -> Definition:
    step = msgspec.convert(STEP, type=type(definition().steps[0]))
    return msgspec.structs.replace(definition(), type="disk.wipe", steps=(step,), **changes)


def proposal(*definitions: Definition, commands: tuple[CommandProfile, ...] = (WIPE,), version: int = 1) -> Proposal:
    manifest = make_manifest(version, definitions, commands, now_ms=NOW, lifetime_ms=YEAR)
    return propose(manifest, definitions, commands)


def opened(made: Proposal, store: TrustStore | None = None) -> Any:
    manifest, documents = __import__("hostler.catalog.manifest", fromlist=["read_bundle"]).read_bundle(made.to_bundle())
    return open_catalog(manifest, documents, store or trust(), NOW)


def refused(made: Proposal, store: TrustStore | None = None) -> str:
    with pytest.raises(HostlerError) as caught:
        opened(made, store)
    return caught.value.code


def test_a_command_as_root_is_destructive_whatever_its_definition_says() -> None:
    assert needs_approval(destroying(), {"wipe": WIPE})
    assert needs_approval(destroying(destructive=True), {})
    harmless = msgspec.structs.replace(WIPE, run_as="")
    assert not needs_approval(destroying(), {"wipe": harmless})
    assert not needs_approval(definition(), {"wipe": WIPE}), "a profile that it does not use"


def test_enough_approvers_open_it_and_one_key_twice_is_not_enough() -> None:
    made = proposal(destroying())
    assert refused(sign(made, [CATALOG])) == "approval_missing"
    assert refused(sign(sign(made, [CATALOG]), [CATALOG])) == "approval_missing"
    assert refused(sign(made, [CATALOG, EVE])) == "approval_missing", "a stranger"
    catalog = opened(sign(sign(made, [CATALOG]), [ANN]))
    assert set(catalog.definitions) == {"disk.wipe@v1"}
    assert len(catalog.documents) == 3, "definition, command profile, and the approval that nodes will ask for"
    again = open_catalog(catalog.manifest_envelope, catalog.documents, trust(), NOW)
    assert again.version == 1


def test_approvers_alone_publish_nothing() -> None:
    assert refused(sign(proposal(destroying()), [ANN, BOB])) == "untrusted_key"


def test_T8_an_approval_ends_with_the_first_byte_that_changes() -> None:
    approved = sign(proposal(destroying()), [CATALOG, ANN])
    other_profile = msgspec.structs.replace(WIPE, base_args=("--all",))
    for changed in (
        proposal(destroying(description="a little different"), version=2),
        proposal(destroying(), commands=(other_profile,), version=2),
    ):
        signed = sign(changed, [CATALOG])
        mixed = signed._replace(approvals=approved.approvals)
        assert refused(mixed) == "approval_missing"


def test_a_fleet_without_approvers_runs_nothing_that_destroys() -> None:
    assert refused(sign(proposal(destroying()), [CATALOG, ANN]), trust(keyset(approvers=()))) == "approval_missing"


def test_an_approval_is_taken_over_while_nothing_changes() -> None:
    first = sign(proposal(destroying()), [CATALOG, ANN])
    manifest = make_manifest(2, [destroying(), definition()], [WIPE], now_ms=NOW, lifetime_ms=YEAR)
    second = propose(manifest, [destroying(), definition()], [WIPE], base=first)
    assert opened(sign(second, [CATALOG])).version == 2, "the approver need not be asked again"
    assert [(c.what, c.name) for c in changes(second, first)] == [("added", definition().ref)]


def test_copies_signed_apart_are_merged_and_what_is_owed_is_counted() -> None:
    made = proposal(destroying())
    owed = standing(made, keyset())
    assert (owed.manifest, owed.approvals) == (1, {"disk.wipe@v1": 2})
    ann, catalog = sign(made, [ANN]), sign(made, [CATALOG])
    both = merge(read_proposal(ann.to_bundle()), read_proposal(catalog.to_bundle()))
    assert standing(both, keyset()).complete
    opened(both)
    with pytest.raises(HostlerError, match="not copies"):
        merge(made, proposal(destroying(), version=2))


def test_a_forged_signature_is_not_counted() -> None:
    made = sign(proposal(destroying()), [ANN])
    envelope = made.approvals["disk.wipe@v1"]
    bent = msgspec.structs.replace(envelope.signatures[0], sig=bytes(64))
    forged = made._replace(approvals={"disk.wipe@v1": msgspec.structs.replace(envelope, signatures=(bent,))})
    assert standing(forged, keyset()).approvals == {"disk.wipe@v1": 2}
    assert KeyRole.DESTRUCTIVE == "destructive"
