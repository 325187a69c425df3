"""Rotations in a ceremony's directory: no stage in which anybody is locked out (PK-08)."""

from pathlib import Path
from typing import Any

import pytest

from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.pki import ceremony, rotate_files
from hostler.pki.blast import find_key, reach_of
from hostler.pki.ceremony import load_signer
from hostler.pki.keyset import KeyRole
from hostler.pki.rehearsal import rehearse
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from hostler.pki.x509 import issued_by, server_names

NOW = SystemClock().now_ms()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return ceremonial(tmp_path / "pki")


def ceremonial(directory: Path, **options: Any) -> Path:
    ceremony.init(
        directory, trust_domain="unit.test", cluster_id="main", hosts=("127.0.0.1", "cp.test"), now_ms=NOW, **options
    )
    return directory


def code(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        call(*arguments, **named)
    return caught.value.code


def node_of(directory: Path) -> TrustStore:
    return TrustStore(load_trust(directory / "trust.json"), NOW)


def keyset_in(directory: Path) -> bytes:
    return (directory / "control" / "keyset.json").read_bytes()


@pytest.mark.parametrize("role", [KeyRole.DISPATCH, KeyRole.CATALOG, KeyRole.CA])
def test_PK_08_three_stages_and_a_node_follows_each(made: Path, role: KeyRole) -> None:
    node, roots = node_of(made), rotate_files.load_roots(made)
    before = load_signer(rotate_files.files_of(made, role).current).public.key_id
    assert rotate_files.stage_of(made, role) == "introduce"
    rotate_files.introduce(made, role, roots, NOW)
    assert node.update_keyset(keyset_in(made), NOW)
    assert len(node.keys(role)) == 2, "old and new both count"
    assert rotate_files.stage_of(made, role) == "activate"
    rotate_files.activate(made, role, NOW)
    after = load_signer(rotate_files.files_of(made, role).current).public.key_id
    assert after != before
    assert after in {key.key_id for key in node.keys(role)}
    assert rotate_files.stage_of(made, role) == "retire"
    rotate_files.retire(made, role, roots, NOW)
    assert node.update_keyset(keyset_in(made), NOW)
    assert [key.key_id for key in node.keys(role)] == [after]
    assert before not in node.keyset.keys
    assert rotate_files.stage_of(made, role) == "introduce"
    assert list(made.rglob("*.old.*")) == []


def test_PK_08_a_new_ca_issues_the_servers_certificate_for_the_same_names(made: Path) -> None:
    node, roots = node_of(made), rotate_files.load_roots(made)
    server = made / "control" / "server.pem"
    names = server_names(server.read_bytes(), "unit.test")
    assert names == ("main", ("cp.test", "127.0.0.1"))
    rotate_files.introduce(made, KeyRole.CA, roots, NOW)
    old = node.keyset.ca_certificates
    rotate_files.activate(made, KeyRole.CA, NOW)
    assert server_names(server.read_bytes(), "unit.test") == names
    assert not issued_by(server.read_bytes(), old), "whoever has not followed would be shut out: hence the proof"
    node.update_keyset(keyset_in(made), NOW)
    assert issued_by(server.read_bytes(), node.keyset.ca_certificates)


def test_PK_08_the_root_is_rotated_by_its_old_and_new_keys(made: Path) -> None:
    node, past = node_of(made), keyset_in(made)
    rotate_files.rotate_root(made, rotate_files.load_roots(made), NOW, count=3, threshold=2)
    assert node.update_keyset(keyset_in(made), NOW)
    assert (len(node.state.root_keys), node.state.root_threshold) == (3, 2)
    old_root = load_signer(made / "root" / "before-2" / "root-1.key")
    forged = ceremony.sign_keyset(
        rotate_files.rotation.successor(node.keyset, NOW),
        [old_root],
    )
    assert code(node.update_keyset, forged, NOW) == "untrusted_key", "the old root counts no more"
    assert code(node.update_keyset, past, NOW) in ("untrusted_key", "keyset_rollback")


def test_a_keyset_waits_until_enough_roots_have_signed_it(tmp_path: Path) -> None:
    made = ceremonial(tmp_path / "pki", root_count=3, root_threshold=2)
    roots = rotate_files.load_roots(made)
    done = rotate_files.introduce(made, KeyRole.DISPATCH, roots[:1], NOW)
    assert done.missing == 1
    assert ceremony.read_keyset(keyset_in(made)).version == 1, "nothing counts before it is complete"
    assert code(rotate_files.stage_of, made, KeyRole.DISPATCH) == "invalid_request"
    again = rotate_files.add_signature(made, roots[0], NOW)
    assert again.missing == 1, "one key signs once, however often it is used (T7)"
    assert rotate_files.add_signature(made, roots[2], NOW).missing == 0
    assert node_of(made).keyset.version == 2
    assert rotate_files.stage_of(made, KeyRole.DISPATCH) == "activate"


def test_a_leaked_key_is_replaced_without_an_overlap(made: Path) -> None:
    node, roots = node_of(made), rotate_files.load_roots(made)
    old = load_signer(made / "control" / "dispatch.key").public.key_id
    rotate_files.replace_leaked(made, KeyRole.DISPATCH, roots, NOW)
    node.update_keyset(keyset_in(made), NOW)
    assert old not in {key.key_id for key in node.keys(KeyRole.DISPATCH)}
    assert code(rotate_files.replace_leaked, made, KeyRole.CA, roots, NOW) == "invalid_request"


def test_a_role_is_never_left_without_enough_keys(made: Path) -> None:
    keyset = rotate_files.present(made)
    (only,) = keyset.roles[KeyRole.DISPATCH].keyids
    assert code(rotate_files.rotation.retire, keyset, KeyRole.DISPATCH, only) == "invalid_request"


def test_the_approvers_role_follows_the_catalog_key(made: Path) -> None:
    roots = rotate_files.load_roots(made)
    approvers = set(rotate_files.present(made).roles[KeyRole.DESTRUCTIVE].keyids)
    for stage in (
        lambda: rotate_files.introduce(made, KeyRole.CATALOG, roots, NOW),
        lambda: rotate_files.activate(made, KeyRole.CATALOG, NOW),
        lambda: rotate_files.retire(made, KeyRole.CATALOG, roots, NOW),
    ):
        stage()
    new = load_signer(made / "catalog" / "catalog.key").public.key_id
    role = rotate_files.present(made).roles[KeyRole.DESTRUCTIVE]
    assert new in role.keyids
    assert len(set(role.keyids) & approvers) == 1, "the approver stays"
    assert role.threshold == 2


@pytest.mark.parametrize("role", [KeyRole.DISPATCH, KeyRole.CATALOG, KeyRole.CA, KeyRole.ROOT])
def test_a_rehearsal_says_who_would_be_left_behind_and_writes_nothing(made: Path, role: KeyRole) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    findings = rehearse(made, role, NOW)
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before
    lost = {finding.node for finding in findings if finding.reason}
    assert lost == ({"asleep until the end"} if role is KeyRole.CA else set())
    assert {"always there", "asleep for one stage"} <= {finding.node for finding in findings}


def test_an_epoch_is_opened_by_the_root_alone(made: Path) -> None:
    node = node_of(made)
    rotate_files.open_epoch(made, rotate_files.load_roots(made), NOW)
    node.update_keyset(keyset_in(made), NOW)
    assert node.control_epoch == 2


def test_the_blast_radius_of_a_key_is_what_its_roles_reach(made: Path) -> None:
    keyset = rotate_files.present(made)
    dispatch = find_key(keyset, "dispatch")
    (reach,) = reach_of(keyset, dispatch)
    assert (reach.role, reach.alone) == ("dispatch", True)
    catalog = find_key(keyset, "catalog")
    by_role = {reach.role: reach for reach in reach_of(keyset, catalog)}
    assert by_role["catalog"].alone
    assert (by_role["destructive"].alone, by_role["destructive"].others) == (False, 1)
    assert find_key(keyset, dispatch[:12].upper()) == dispatch
    assert code(find_key, keyset, "feedfacefeed") == "not_found"
    assert code(find_key, keyset, dispatch[:4]) == "not_found", "four digits are a guess"
    assert code(find_key, keyset, "destructive") == "invalid_request"
    assert {str(role) for role in KeyRole} == {str(r) for r in _reaches()}, "every role has its sentence"


def _reaches() -> Any:
    from hostler.pki.blast import _REACH

    return _REACH
