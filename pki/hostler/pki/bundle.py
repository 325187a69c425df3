"""Audit bundles: the receipt chains of some nodes in one file that can be checked with no network.

    {"_type": "hostler.audit.v1", "trust_domain", "keyset": <DSSE>, "keyset_history": [<DSSE>],
     "nodes": {node_id: {keys, receipts}}, "checkpoints": [{envelope, included, countersignatures}]}

A node's keys are anchored by the certificates that its CA issued for them, the CA by the keyset, the keyset by
the root keys of a `trust.json` that the verifier has from elsewhere. Checkpoints say how long each chain has to be,
and witnesses that everybody was shown the same ones.
"""

import base64
import binascii
from collections.abc import Sequence

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.pki import dsse
from hostler.pki.chain import ChainFault, ChainHead, verify_chain
from hostler.pki.checkpoint import role_keys
from hostler.pki.coverage import (
    BundleCheckpoint,
    BundleFault,
    CheckpointReport,
    Opened,
    coverage,
    first_difference,
    left_out,
    open_all,
    shortfall,
    since,
    vouched,
)
from hostler.pki.keys import PublicKey
from hostler.pki.keyset import KeyRole, Keyset, parse_keyset
from hostler.pki.keyset_history import accepted_keysets
from hostler.pki.trust import TrustState

BUNDLE_TYPE = "hostler.audit.v1"


class NodeKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key the node has had, and a certificate issued for it."""

    spki: str  # base64 DER
    certificate: str = ""  # PEM


class NodeChain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[NodeKey, ...]
    receipts: tuple[msgspec.Raw, ...]
    start_index: int = 0
    start_previous: str = ""


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`keyset_history` leads, oldest first, from an older root to the keyset in force."""

    type: str = msgspec.field(name="_type", default=BUNDLE_TYPE)
    trust_domain: str
    keyset: msgspec.Raw
    keyset_history: tuple[msgspec.Raw, ...] = ()
    nodes: dict[str, NodeChain]
    checkpoints: tuple[BundleCheckpoint, ...] = ()


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """`covered` of its receipts are under a checkpoint, `witnessed` under one that a witness has seen."""

    node_id: str
    length: int
    head: str
    fault: ChainFault | None = None
    covered: int = 0
    witnessed: int = 0


class BundleReport(msgspec.Struct, frozen=True, kw_only=True):
    """`anchored`: the keys were traced to the given trust root; else they were taken at their word."""

    ok: bool
    anchored: bool
    nodes: tuple[NodeReport, ...]
    checkpoints: tuple[CheckpointReport, ...] = ()
    faults: tuple[BundleFault, ...] = ()


class _Anchor(msgspec.Struct, frozen=True):
    """`cas` is None where there is no root to trust; `signers` may have signed checkpoints."""

    cas: tuple[str, ...] | None
    keyset: Keyset
    signers: tuple[PublicKey, ...]


def build_bundle(
    trust_domain: str,
    keyset: bytes,
    nodes: dict[str, NodeChain],
    checkpoints: Sequence[BundleCheckpoint] = (),
    keyset_history: Sequence[bytes] = (),
) -> bytes:
    bundle = Bundle(
        trust_domain=trust_domain,
        keyset=msgspec.Raw(keyset),
        keyset_history=tuple(map(msgspec.Raw, keyset_history)),
        nodes=nodes,
        checkpoints=tuple(checkpoints),
    )
    return msgspec.json.encode(bundle)


def read_bundle(data: bytes) -> Bundle:
    """Raises `invalid_request` for what is no bundle."""
    bundle = decode_json(data, Bundle, what="audit bundle")
    if bundle.type != BUNDLE_TYPE:
        raise error("invalid_request", f"this is no audit bundle but {bundle.type!r}")
    return bundle


def verify_bundle(
    data: bytes,
    trust: TrustState | None = None,
    *,
    require_witness: bool = False,
    require_all: bool = False,
    earlier: bytes | None = None,
) -> BundleReport:
    """Checks every chain of the bundle, to its end or to its first fault, and against its checkpoints.

    Args:
        require_witness: a receipt that no witnessed checkpoint covers is a fault too.
        require_all: a chain that the newest checkpoint is over and the bundle lacks is a fault too.
        earlier: a bundle of the same fleet from before, which this one has to extend.

    Raises:
        HostlerError: `invalid_request` for what is no bundle, `keyset_untrusted` and its kin when the
            bundle's keyset does not come from the given roots.
    """
    bundle = read_bundle(data)
    anchor = _anchor_of(bundle, trust)
    opened, faults = open_all(bundle.checkpoints, anchor.signers, anchor.keyset)
    reports = [_verify_node(name, chain, anchor.cas, opened) for name, chain in sorted(bundle.nodes.items())]
    if earlier is not None:
        before = read_bundle(earlier)
        more, reports = _since(before, bundle, opened, _anchor_of(before, trust), reports)
        faults += more
    if require_all:
        faults += left_out(opened, bundle.nodes)
    if require_witness:
        reports = [_with_witness(each, bundle.nodes[each.node_id].start_index) for each in reports]
    return BundleReport(
        ok=not faults and all(each.fault is None for each in reports),
        anchored=anchor.cas is not None,
        nodes=tuple(reports),
        checkpoints=tuple(each.report for each in opened),
        faults=tuple(faults),
    )


def _anchor_of(bundle: Bundle, trust: TrustState | None) -> _Anchor:
    """The keyset that the bundle's keys hang on. Without a root to trust, its own word."""
    documents = [bytes(each) for each in (*bundle.keyset_history, bundle.keyset)]
    if trust is None:
        keysets = [parse_keyset(dsse.from_json(each).payload) for each in documents]
        return _Anchor(None, keysets[-1], _signers(keysets))
    if trust.trust_domain != bundle.trust_domain:
        raise error("keyset_untrusted", f"the bundle is of trust domain {bundle.trust_domain!r}")
    keysets = accepted_keysets(trust, documents)
    return _Anchor(keysets[-1].ca_certificates, keysets[-1], _signers(keysets))


def _signers(keysets: Sequence[Keyset]) -> tuple[PublicKey, ...]:
    """Dispatch keys, those of the past too: a checkpoint outlives the key that signed it."""
    return tuple(key for keyset in keysets for key in role_keys(keyset, KeyRole.DISPATCH))


def _verify_node(node_id: str, chain: NodeChain, cas: tuple[str, ...] | None, opened: Sequence[Opened]) -> NodeReport:
    try:
        keys = [_key(entry, node_id, cas) for entry in chain.keys]
    except HostlerError as err:
        fault = ChainFault(chain.start_index, "foreign_key", err.message)
        return NodeReport(node_id=node_id, length=0, head="", fault=fault)
    start = ChainHead(chain.start_index, chain.start_previous)
    receipts = [bytes(receipt) for receipt in chain.receipts]
    report = verify_chain(receipts, keys, node_id, start, vouched(node_id, opened))
    covered, witnessed = coverage(node_id, opened, chain.start_index + report.length)
    return NodeReport(
        node_id=node_id,
        length=report.length,
        head=report.head,
        fault=report.fault or shortfall(node_id, chain.start_index, receipts, opened),
        covered=covered,
        witnessed=witnessed,
    )


def _with_witness(report: NodeReport, start: int) -> NodeReport:
    """The report, with a fault at the first receipt that no witness has seen."""
    if report.fault is not None or report.witnessed >= start + report.length:
        return report
    fault = ChainFault(max(start, report.witnessed), "unwitnessed", "no checkpoint that a witness has seen covers it")
    return msgspec.structs.replace(report, fault=fault)


def _since(
    before: Bundle, bundle: Bundle, opened: Sequence[Opened], anchor: _Anchor, reports: list[NodeReport]
) -> tuple[list[BundleFault], list[NodeReport]]:
    """The faults that show only beside an earlier bundle, and the reports with theirs."""
    seen, faults = open_all(before.checkpoints, anchor.signers, anchor.keyset)
    faults += since(seen, opened, sorted(set(before.nodes) - set(bundle.nodes)))
    return faults, [_extends(each, before.nodes.get(each.node_id), bundle.nodes[each.node_id]) for each in reports]


def _extends(report: NodeReport, old: NodeChain | None, now: NodeChain) -> NodeReport:
    if old is None or report.fault is not None:
        return report
    fault = first_difference(old.start_index, old.receipts, now.start_index, now.receipts)
    return msgspec.structs.replace(report, fault=fault)


def node_keys(chain: NodeChain) -> list[PublicKey]:
    """As the bundle names them; `verify_bundle` is what anchors them. Raises `untrusted_key`."""
    return [_key(entry, "", None) for entry in chain.keys]


def _key(entry: NodeKey, node_id: str, cas: tuple[str, ...] | None) -> PublicKey:
    try:
        key = PublicKey(base64.b64decode(entry.spki, validate=True))
    except binascii.Error as err:
        raise error("untrusted_key", "a node key cannot be read") from err
    if cas is None:
        return key
    from hostler.pki.x509 import issued_by, read_identity

    pem = entry.certificate.encode()
    if not issued_by(pem, cas):
        raise error("certificate_invalid", "a node key has no certificate by a CA of the keyset")
    identity = read_identity(pem)
    if identity.thumbprint != key.key_id or identity.role != "node" or identity.name != node_id:
        raise error("certificate_invalid", "a node key's certificate is for another key or node")
    return key
