"""AL-06: what a hand-over certificate is worth is decided by the node's chain, not by what it says of itself."""

import base64
from typing import Any

import msgspec
import pytest

from hostler.base.digest import digest_of, sha256_hex
from hostler.base.errors import HostlerError
from hostler.pki.bundle import NodeChain, NodeKey, build_bundle
from hostler.pki.chain import receipt_digest
from hostler.pki.handover import LINKS, VERIFY, build_handover, verify_handover
from hostler.pki.keys import new_p256
from hostler.pki.statements import chain_link, handover_statement, sign_statement, step_statement
from support.keys import Keys

NODE, DOMAIN = "nod_a", "unit.test"
STEPS = (
    (LINKS[0], "fence", "access.fence"),
    (LINKS[1], "revoke", "identity.revoke"),
    (VERIFY, "residue", "residue.check"),
)


class Node:
    """Writes a chain, and a certificate over it."""

    def __init__(self) -> None:
        self.keys = Keys()
        self.signer = new_p256()
        self.receipts: list[bytes] = []

    def step(self, type_: str, step_id: str, kind: str, status: str = "succeeded", **more: Any) -> bytes:
        predicate = {
            "operation_type": f"{type_}@v1", "operation_id": f"op_{type_}", "task_id": f"tsk_{type_}",
            "step_id": step_id, "step_kind": kind, "status": status, "allocation_id": "", **more,
        }  # fmt: skip
        previous = receipt_digest(self.receipts[-1]) if self.receipts else ""
        link = chain_link(NODE, len(self.receipts), previous)
        self.receipts.append(sign_statement(step_statement(predicate, link), self.signer))
        return self.receipts[-1]

    def certificate(self, named: list[tuple[tuple[str, str, str], bytes]], **changes: Any) -> bytes:
        receipts = [
            {
                "operation_type": f"{type_}@v1", "operation_id": f"op_{type_}", "task_id": f"tsk_{type_}",
                "step_id": step_id, "step_kind": kind, "receipt_digest": receipt_digest(receipt), "finished_at_ms": 1,
            }
            for (type_, step_id, kind), receipt in named
        ]  # fmt: skip
        predicate = {
            "node_id": NODE, "trust_domain": DOMAIN, "allocation_id": "al-1", "task_id": f"tsk_{VERIFY}",
            "baseline_digest": "b", "inventory_digest": "i", "findings": 0, "devices": [], "links": list(LINKS),
            "receipts": receipts, "certified_at_ms": 1, **changes,
        }  # fmt: skip
        return sign_statement(handover_statement(predicate), self.signer)

    def give_out(self, document: bytes, **more: Any) -> None:
        outputs = {
            "allocation_id": "al-1",
            "certificate": document.decode(),
            "certificate_digest": sha256_hex(document),
        }
        self.step(VERIFY, "certificate", "handover.certify", output_digest=digest_of(outputs), **more)

    def faults(self, document: bytes) -> tuple[str, ...]:
        spki = base64.b64encode(self.signer.public.spki_der).decode()
        chain = NodeChain((NodeKey(spki),), tuple(map(msgspec.Raw, self.receipts)))
        bundle = build_bundle(DOMAIN, self.keys.keyset(), {NODE: chain})
        return verify_handover(build_handover(document, bundle)).faults


@pytest.fixture
def node() -> Node:
    return Node()


def whole(node: Node) -> list[tuple[tuple[str, str, str], bytes]]:
    return [(step, node.step(*step)) for step in STEPS]


def test_a_whole_chain_is_a_hand_over(node: Node) -> None:
    document = node.certificate(whole(node))
    node.give_out(document)
    assert node.faults(document) == ()


@pytest.mark.parametrize("left_out", range(3))
def test_a_certificate_that_leaves_a_link_out_is_none(node: Node, left_out: int) -> None:
    named = whole(node)
    del named[left_out]
    document = node.certificate(named)
    node.give_out(document)
    assert any(f"{STEPS[left_out][0]} is missing" in fault for fault in node.faults(document))


def test_links_in_another_order_are_none(node: Node) -> None:
    named = [(step, node.step(*step)) for step in (STEPS[1], STEPS[0], STEPS[2])]
    document = node.certificate([named[1], named[0], named[2]])
    node.give_out(document)
    assert any("before one that belongs before it" in fault for fault in node.faults(document))


def test_a_link_that_failed_is_none_whatever_the_certificate_says(node: Node) -> None:
    named = [(step, node.step(*step, status="failed" if step is STEPS[0] else "succeeded")) for step in STEPS]
    document = node.certificate(named)
    node.give_out(document)
    assert any("says something else: status" in fault for fault in node.faults(document))


def test_a_step_that_failed_again_before_the_certificate_speaks_against_it(node: Node) -> None:
    named = whole(node)
    node.step(*STEPS[2], status="failed")
    document = node.certificate(named)
    node.give_out(document)
    assert any("residue had not succeeded" in fault for fault in node.faults(document))


def test_a_certificate_that_the_chain_does_not_give_out_is_none(node: Node) -> None:
    """A node's key that leaked could sign any number of them; its chain names one."""
    named = whole(node)
    node.give_out(node.certificate(named))
    other = node.certificate(named, inventory_digest="another")
    assert any("no receipt says that this certificate was given out" in fault for fault in node.faults(other))


def test_a_certificate_by_another_key_is_refused(node: Node) -> None:
    named = whole(node)
    stranger = Node()
    stranger.receipts = node.receipts
    with pytest.raises(HostlerError) as caught:
        node.faults(stranger.certificate(named))
    assert caught.value.code == "untrusted_key"


def test_findings_no_baseline_and_another_domain_speak_against_it(node: Node) -> None:
    document = node.certificate(whole(node), findings=1, baseline_digest="", trust_domain="other.test")
    node.give_out(document)
    text = "; ".join(node.faults(document))
    assert "1 findings" in text
    assert "no baseline" in text
    assert "another trust domain" in text


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"_type":"x","certificate":{},"bundle":{}}', b"[" * 9000])
def test_what_is_no_hand_over_is_one_sentence(data: bytes) -> None:
    with pytest.raises(HostlerError):
        verify_handover(data)
