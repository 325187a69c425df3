"""Hand-over certificates: a node's word that nothing of a tenant is left, checked with no network.

    {"_type": "hostler.handover.v1", "certificate": <DSSE>, "bundle": <audit bundle>}

The certificate counts for nothing by itself: every receipt that it names has to stand in the node's chain, in order
and succeeded, and the links of the release have to be all there. The keys are anchored as in any audit bundle.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.base.digest import digest_of, sha256_hex
from hostler.base.envelope import STATEMENT_TYPE
from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.pki import dsse
from hostler.pki.bundle import NodeChain, node_keys, read_bundle, verify_bundle
from hostler.pki.chain import read_statement, receipt_digest
from hostler.pki.statements import HANDOVER_PREDICATE, STEP_PREDICATE
from hostler.pki.trust import TrustState

HANDOVER_TYPE = "hostler.handover.v1"
LINKS = ("allocation.runtime.deprovision", "allocation.identity.revoke")
VERIFY = "node.reclaim.verify"
NEEDED_KINDS = {LINKS[0]: "access.fence", LINKS[1]: "identity.revoke", VERIFY: "residue.check"}
CERTIFY = "handover.certify"
MOST_RECEIPTS = 256


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A receipt that the certificate rests on."""

    operation_type: str
    operation_id: str
    task_id: str
    step_id: str
    step_kind: str
    receipt_digest: str
    finished_at_ms: int

    @property
    def type(self) -> str:
        return self.operation_type.partition("@")[0]


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The predicate. Times are Unix milliseconds; `devices` are as `device.sanitize` gives them out."""

    node_id: str
    trust_domain: str
    allocation_id: str
    task_id: str
    baseline_digest: str
    inventory_digest: str
    findings: int
    devices: tuple[dict[str, Any], ...]
    links: tuple[str, ...]
    receipts: tuple[Named, ...]
    certified_at_ms: int


class _Statement(msgspec.Struct, frozen=True):
    predicate: Certificate
    predicate_type: str = msgspec.field(name="predicateType")


class Handover(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What travels from the operator to the next tenant."""

    type: str = msgspec.field(name="_type", default=HANDOVER_TYPE)
    certificate: msgspec.Raw
    bundle: msgspec.Raw


class HandoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """`faults` says everything that speaks against it; `anchored`: the keys were traced to the given root."""

    ok: bool
    anchored: bool
    certificate: Certificate
    faults: tuple[str, ...] = ()


def build_handover(certificate: bytes, bundle: bytes) -> bytes:
    return msgspec.json.encode(Handover(certificate=msgspec.Raw(certificate), bundle=msgspec.Raw(bundle)))


def verify_handover(data: bytes, trust: TrustState | None = None) -> HandoverReport:
    """Checks the chain of receipts, the certificate's signature, and that every link is there and succeeded.

    Raises:
        HostlerError: `invalid_request` for what is no hand-over, `keyset_untrusted` and its kin as
            `verify_bundle` does, `bad_signature` or `untrusted_key` when the certificate is not the node's.
    """
    handover = decode_json(data, Handover, what="hand-over")
    if handover.type != HANDOVER_TYPE:
        raise error("invalid_request", f"this is no hand-over but {handover.type!r}")
    bundle_report = verify_bundle(bytes(handover.bundle), trust)
    bundle = read_bundle(bytes(handover.bundle))
    envelope = dsse.from_json(bytes(handover.certificate))
    certificate = _certificate(envelope.payload)
    chain = bundle.nodes.get(certificate.node_id)
    if chain is None:
        raise error("invalid_request", f"the bundle has no chain of node {certificate.node_id}")
    dsse.verify(envelope, STATEMENT_TYPE, node_keys(chain))
    faults = [
        f"node {node.node_id}: receipt {node.fault.index}: {node.fault.message}"
        for node in bundle_report.nodes
        if node.fault is not None
    ]
    faults += [fault.message for fault in bundle_report.faults]
    if bundle.trust_domain != certificate.trust_domain:
        faults.append("the certificate is of another trust domain than the bundle")
    faults += faults_of(certificate, bytes(handover.certificate), chain)
    return HandoverReport(ok=not faults, anchored=bundle_report.anchored, certificate=certificate, faults=tuple(faults))


def _certificate(payload: bytes) -> Certificate:
    statement = decode_json(payload, _Statement, what="hand-over certificate")
    if statement.predicate_type != HANDOVER_PREDICATE:
        raise error("invalid_request", "the statement is no hand-over certificate")
    return statement.predicate


def faults_of(certificate: Certificate, document: bytes, chain: NodeChain) -> list[str]:
    """What is missing or wrong between the certificate and the chain it rests on."""
    places = {receipt_digest(bytes(receipt)): place for place, receipt in enumerate(chain.receipts)}
    faults = list(_receipt_faults(certificate, chain, places))
    faults += _link_faults(certificate.receipts)
    if certificate.findings:
        faults.append(f"the certificate itself names {certificate.findings} findings")
    if not certificate.baseline_digest:
        faults.append("the certificate names no baseline")
    faults += _signed_off(certificate, document, chain, places)
    return faults


def _receipt_faults(certificate: Certificate, chain: NodeChain, places: dict[str, int]) -> list[str]:
    faults, last = [], -1
    for named in certificate.receipts:
        place = places.get(named.receipt_digest)
        what = f"{named.step_id} of {named.operation_type}"
        if place is None:
            faults.append(f"the receipt of {what} is not in the node's chain")
            continue
        if place <= last:
            faults.append(f"the receipt of {what} stands before one that belongs before it")
        last = max(last, place)
        said = _predicate(bytes(chain.receipts[place]))
        wanted = {
            "operation_type": named.operation_type, "operation_id": named.operation_id, "task_id": named.task_id,
            "step_id": named.step_id, "step_kind": named.step_kind, "status": "succeeded",
        }  # fmt: skip
        wrong = sorted(name for name, value in wanted.items() if said.get(name) != value)
        if said.get("allocation_id") not in ("", certificate.allocation_id):
            wrong.append("allocation_id")
        if wrong:
            faults.append(f"the receipt of {what} says something else: {', '.join(wrong)}")
    return faults


def _link_faults(receipts: Sequence[Named]) -> list[str]:
    """Each link with the step that makes it one, and one after the other."""
    faults: list[str] = []
    first: list[int] = []
    for link, kind in NEEDED_KINDS.items():
        found = [place for place, named in enumerate(receipts) if named.type == link]
        if not any(receipts[place].step_kind == kind for place in found):
            faults.append(f"{link} is missing, or lacks its {kind}")
        elif first and found[0] < first[-1]:
            faults.append(f"{link} does not come after the link before it")
        first += found[-1:]
    return faults


def _signed_off(certificate: Certificate, document: bytes, chain: NodeChain, places: dict[str, int]) -> list[str]:
    """The node's chain says that this very document was given out, after all it rests on, with nothing failed since."""
    output_digest = digest_of(
        {
            "allocation_id": certificate.allocation_id,
            "certificate": document.decode("utf-8", "replace"),
            "certificate_digest": sha256_hex(document),
        }
    )
    after = max((places.get(named.receipt_digest, -1) for named in certificate.receipts), default=-1)
    tasks = {named.task_id for named in certificate.receipts} | {certificate.task_id}
    state: dict[tuple[Any, Any], Any] = {}
    for place, receipt in enumerate(chain.receipts):
        said = _predicate(bytes(receipt))
        if said.get("task_id") not in tasks:
            continue
        state[said.get("task_id"), said.get("step_id")] = said.get("status")
        given_out = (CERTIFY, "succeeded", certificate.task_id, output_digest)
        if place > after and _signs(said) == given_out:
            failed = sorted(str(step) for (_, step), status in state.items() if status != "succeeded")
            return [f"step {step} had not succeeded when the certificate was given out" for step in failed]
    return ["no receipt says that this certificate was given out, after those that it names"]


def _signs(said: dict[str, Any]) -> tuple[Any, ...]:
    return said.get("step_kind"), said.get("status"), said.get("task_id"), said.get("output_digest")


def _predicate(receipt: bytes) -> dict[str, Any]:
    try:
        statement = read_statement(receipt)
    except HostlerError:
        return {}
    predicate = statement.get("predicate")
    if statement.get("predicateType") != STEP_PREDICATE or not isinstance(predicate, dict):
        return {}
    return predicate
