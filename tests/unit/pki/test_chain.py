"""Receipt chains: the exact index of what was altered, dropped, reordered or inserted."""

from pathlib import Path

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.pki import ceremony
from hostler.pki.authority import Authority
from hostler.pki.bundle import NodeChain, NodeKey, build_bundle, verify_bundle
from hostler.pki.chain import receipt_digest, verify_chain
from hostler.pki.keys import FileSigner, new_p256
from hostler.pki.keyset import encode_key
from hostler.pki.statements import chain_link, refusal_statement, sign_statement, step_statement
from hostler.pki.trust_files import load_trust

NOW = 1_800_000_000_000
NODE, KEY = "nod_1", new_p256()


def receipts(count: int, key: FileSigner = KEY, node: str = NODE, name: str = "s") -> list[bytes]:
    made: list[bytes] = []
    previous = ""
    for index in range(count):
        predicate = {"task_id": "t", "step_id": f"{name}{index}", "status": "succeeded"}
        made.append(sign_statement(step_statement(predicate, chain_link(node, index, previous)), key))
        previous = receipt_digest(made[-1])
    return made


def fault(chain: list[bytes]) -> tuple[int, str]:
    report = verify_chain(chain, [KEY.public], NODE)
    assert not report.ok
    assert report.fault is not None
    return report.fault.index, report.fault.kind


def test_a_whole_chain_is_good() -> None:
    chain = receipts(5)
    report = verify_chain(chain, [KEY.public], NODE)
    assert (report.ok, report.length, report.head) == (True, 5, receipt_digest(chain[-1]))


def test_an_empty_chain_is_good() -> None:
    assert verify_chain([], [KEY.public], NODE).ok


@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_altered_receipt_is_named(place: int) -> None:
    chain = receipts(5)
    document = msgspec.json.decode(chain[place])
    document["payload"] = ("A" if document["payload"][40] != "A" else "B").join(
        (document["payload"][:40], document["payload"][41:])
    )
    chain[place] = msgspec.json.encode(document)
    assert fault(chain) == (place, "altered")


@pytest.mark.parametrize("place", [0, 2])
def test_a_dropped_receipt_is_named(place: int) -> None:
    chain = receipts(5)
    del chain[place]
    assert fault(chain) == (place, "dropped")


@pytest.mark.parametrize("place", [0, 1, 3])
def test_reordered_receipts_are_named(place: int) -> None:
    chain = receipts(5)
    chain[place], chain[place + 1] = chain[place + 1], chain[place]
    assert fault(chain) == (place, "reordered")


def test_a_receipt_that_stands_twice_is_inserted() -> None:
    chain = receipts(5)
    chain.insert(2, chain[1])
    assert fault(chain) == (2, "inserted")


def test_a_receipt_of_another_history_of_the_same_node_is_inserted() -> None:
    chain, other = receipts(5), receipts(5, name="x")
    chain[3] = other[3]
    assert fault(chain) == (3, "inserted")


def test_a_receipt_of_another_node_is_inserted() -> None:
    chain = receipts(3)
    chain[1] = receipts(3, node="nod_2")[1]
    assert fault(chain) == (1, "inserted")


def test_another_node_s_whole_chain_does_not_pass_for_this_one_s() -> None:
    assert fault(receipts(3, node="nod_2")) == (0, "inserted")


def test_a_receipt_by_a_foreign_key_is_named() -> None:
    chain = receipts(3)
    chain[2] = receipts(3, key=new_p256())[2]
    assert fault(chain) == (2, "foreign_key")


def test_a_truncated_end_is_seen_by_whoever_knows_the_head() -> None:
    chain = receipts(5)
    report = verify_chain(chain[:4], [KEY.public], NODE)
    assert report.ok
    assert report.head != receipt_digest(chain[-1])


def test_a_refusal_s_receipt_names_the_envelope() -> None:
    statement = refusal_statement({"envelope_digest": "a" * 64, "error_code": "expired"}, chain_link(NODE, 0, ""))
    assert statement["subject"] == [{"name": "envelope", "digest": {"sha256": "a" * 64}}]
    assert verify_chain([sign_statement(statement, KEY)], [KEY.public], NODE).ok


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("fleet") / "pki"
    ceremony.init(directory, trust_domain="unit.test", cluster_id="main", hosts=("127.0.0.1",), now_ms=NOW)
    return directory


def bundle(fleet: Path, chain: list[bytes], key: FileSigner = KEY, node: str = NODE) -> bytes:
    control = fleet / "control"
    ca = ceremony.load_signer(control / "ca.key")
    issuer = Authority(ca, (control / "ca.pem").read_bytes(), "unit.test")
    certificate = issuer.issue_node(node, key.public, NOW).decode()
    entry = NodeChain((NodeKey(encode_key(key.public), certificate),), tuple(msgspec.Raw(r) for r in chain))
    return build_bundle("unit.test", (control / "keyset.json").read_bytes(), {NODE: entry})


def test_a_bundle_is_verified_offline_against_the_trust_root(fleet: Path) -> None:
    report = verify_bundle(bundle(fleet, receipts(4)), load_trust(fleet / "trust.json"))
    assert (report.ok, report.anchored, report.nodes[0].length) == (True, True, 4)


def test_a_bundle_without_a_trust_root_says_that_it_is_not_anchored(fleet: Path) -> None:
    report = verify_bundle(bundle(fleet, receipts(2)))
    assert report.ok
    assert not report.anchored


def test_a_bundle_with_a_key_certified_for_another_node_is_refused(fleet: Path) -> None:
    report = verify_bundle(bundle(fleet, receipts(2), node="nod_other"), load_trust(fleet / "trust.json"))
    assert not report.ok
    assert report.nodes[0].fault is not None
    assert report.nodes[0].fault.kind == "foreign_key"


def test_a_bundle_of_a_foreign_fleet_is_refused(fleet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    ceremony.init(other, trust_domain="unit.test", cluster_id="main", hosts=("127.0.0.1",), now_ms=NOW)
    with pytest.raises(HostlerError):
        verify_bundle(bundle(other, receipts(2)), load_trust(fleet / "trust.json"))


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b'{"_type":"x","trust_domain":"a","keyset":{},"nodes":{}}'])
def test_what_is_no_bundle_is_refused_in_one_sentence(data: bytes) -> None:
    with pytest.raises(HostlerError) as caught:
        verify_bundle(data)
    assert "\n" not in str(caught.value)
