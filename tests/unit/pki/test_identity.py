"""Keys on disk, certificates, tokens, renewal."""

import random
import stat
from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.pki import ceremony
from hostler.pki.authority import NODE_LIFETIME_S, Authority, make_ca
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.renewal import renew_at_ms
from hostler.pki.storage import read_private, write_private
from hostler.pki.tokens import new_enrolment_token, read_enrolment_token
from hostler.pki.x509 import check_time, issued_by, make_csr, read_csr, read_identity

NOW = 1_800_000_000_000
HOUR = 3_600_000


@pytest.fixture(scope="module")
def issuer() -> Authority:
    key = new_p256()
    return Authority(key, make_ca(key, "unit.test", NOW), "unit.test")


def code_of(call, *arguments) -> str:
    with pytest.raises(HostlerError) as caught:
        call(*arguments)
    return caught.value.code


def test_PK_01_a_node_certificate_carries_the_spiffe_identity_and_nothing_of_a_server(issuer: Authority) -> None:
    key = new_p256()
    identity = read_identity(issuer.issue_node("nod_1", key.public, NOW))
    assert (identity.role, identity.name, identity.trust_domain) == ("node", "nod_1", "unit.test")
    assert identity.thumbprint == key.public.key_id
    assert identity.not_after_ms - NOW == NODE_LIFETIME_S * 1000


def test_a_certificate_counts_within_its_life_only(issuer: Authority) -> None:
    identity = read_identity(issuer.issue_node("nod_1", new_p256().public, NOW))
    check_time(identity, NOW)
    assert code_of(check_time, identity, NOW + 25 * HOUR) == "certificate_invalid"
    assert code_of(check_time, identity, NOW - HOUR) == "certificate_invalid"


def test_a_certificate_by_a_foreign_ca_is_not_ours(issuer: Authority) -> None:
    key = new_p256()
    ours = make_ca(key, "unit.test", NOW).decode()
    assert not issued_by(issuer.issue_node("nod_1", new_p256().public, NOW), (ours,))


def test_PK_02_a_signing_request_proves_possession_of_its_key() -> None:
    key = new_p256()
    assert read_csr(make_csr(key, "node")).key_id == key.public.key_id


def test_PK_02_a_request_for_somebody_else_s_key_is_refused() -> None:
    from cryptography.hazmat.primitives import serialization

    mine = make_csr(new_p256(), "node")
    victim = new_p256().public.spki_der
    spki = serialization.load_der_public_key(read_csr(mine).spki_der).public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert code_of(read_csr, mine.replace(spki, victim)) in {"bad_signature", "invalid_request"}
    assert code_of(read_csr, b"\x30\x00") == "invalid_request"


def test_PK_03_a_thousand_nodes_renew_spread_and_hours_before_the_end() -> None:
    rng = random.Random(1)
    moments = [renew_at_ms(0, 24 * HOUR, rng) for _ in range(1000)]
    assert max(moments) <= 22 * HOUR
    assert min(moments) > 0
    assert max(sum(start <= m < start + HOUR // 2 for m in moments) for start in range(0, 24 * HOUR, HOUR // 2)) < 200


def test_a_key_file_is_private_and_one_open_to_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    write_private(path, new_ed25519().to_pem())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    FileSigner.from_pem(read_private(path))
    path.chmod(0o640)
    assert code_of(read_private, path) == "invalid_config"


def test_a_key_file_that_is_a_link_or_absent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert code_of(read_private, tmp_path / "link") == "invalid_config"
    assert code_of(read_private, tmp_path / "none") == "invalid_config"


def test_PK_02_a_token_is_read_back_and_a_changed_one_is_another(tmp_path: Path) -> None:
    token = new_enrolment_token()
    assert read_enrolment_token(f" {token.text}\n") == token
    assert token.text.split("_")[2] not in token.sha256
    for text in ("", "hst1_", token.text[:-1], token.text + "x", token.text.upper(), "hsb1_" + token.text[5:]):
        assert code_of(read_enrolment_token, text) == "enrolment_token_invalid"


def test_the_ceremony_fills_an_empty_directory_and_touches_no_other(tmp_path: Path) -> None:
    target = tmp_path / "pki"
    made = ceremony.init(target, trust_domain="unit.test", cluster_id="c", hosts=("localhost",), now_ms=NOW)
    assert all(path.exists() for path in made)
    before = {path: path.read_bytes() for path in made}
    with pytest.raises(HostlerError) as caught:
        ceremony.init(target, trust_domain="unit.test", cluster_id="c", hosts=("localhost",), now_ms=NOW)
    assert caught.value.code == "already_initialised"
    assert {path: path.read_bytes() for path in made} == before
    for path in made:
        if path.suffix == ".key":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("count", "threshold"), [(1, 2), (0, 0), (3, 0), (17, 1)])
def test_the_ceremony_refuses_a_threshold_that_cannot_be_met(tmp_path: Path, count: int, threshold: int) -> None:
    with pytest.raises(HostlerError):
        ceremony.init(
            tmp_path / "pki", trust_domain="unit.test", cluster_id="c", hosts=(), now_ms=NOW,
            root_count=count, root_threshold=threshold,
        )  # fmt: skip
    assert not (tmp_path / "pki").exists()


def test_PK_11_what_is_described_holds_no_private_part(tmp_path: Path) -> None:
    target = tmp_path / "pki"
    ceremony.init(target, trust_domain="unit.test", cluster_id="c", hosts=("localhost",), now_ms=NOW)
    text = str(ceremony.describe(target))
    assert "PRIVATE" not in text
    assert "root-1.key" in text
