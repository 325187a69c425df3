"""Audit bundles: the receipt chains of some nodes in one file that can be checked with no network.

    {"_type": "hostler.audit.v1", "trust_domain", "keyset": <DSSE>, "nodes": {node_id: {keys, receipts}}}

A node's keys are anchored by the certificates that its CA issued for them, the CA by the keyset, the keyset by
the root keys of a `trust.json` that the verifier has from elsewhere.
"""

import base64
import binascii

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.pki.chain import ChainFault, ChainHead, verify_chain
from hostler.pki.keys import PublicKey
from hostler.pki.trust import TrustState, TrustStore

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
    type: str = msgspec.field(name="_type", default=BUNDLE_TYPE)
    trust_domain: str
    keyset: msgspec.Raw
    nodes: dict[str, NodeChain]


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    node_id: str
    length: int
    head: str
    fault: ChainFault | None = None


class BundleReport(msgspec.Struct, frozen=True, kw_only=True):
    """`anchored`: the keys were traced to the given trust root; else they were taken at their word."""

    ok: bool
    anchored: bool
    nodes: tuple[NodeReport, ...]


def build_bundle(trust_domain: str, keyset: bytes, nodes: dict[str, NodeChain]) -> bytes:
    bundle = Bundle(trust_domain=trust_domain, keyset=msgspec.Raw(keyset), nodes=nodes)
    return msgspec.json.encode(bundle)


def verify_bundle(data: bytes, trust: TrustState | None = None) -> BundleReport:
    """Checks every chain of the bundle, to its end or to its first fault.

    Raises:
        HostlerError: `invalid_request` for what is no bundle, `keyset_untrusted` and its kin when the
            bundle's keyset does not come from the given roots.
    """
    bundle = decode_json(data, Bundle, what="audit bundle")
    if bundle.type != BUNDLE_TYPE:
        raise error("invalid_request", f"this is no audit bundle but {bundle.type!r}")
    cas = _anchors(bundle, trust)
    nodes = tuple(_verify_node(node_id, chain, cas) for node_id, chain in sorted(bundle.nodes.items()))
    return BundleReport(ok=all(n.fault is None for n in nodes), anchored=cas is not None, nodes=nodes)


def _anchors(bundle: Bundle, trust: TrustState | None) -> tuple[str, ...] | None:
    """The CA certificates that may have issued the nodes' certificates; None without a root to trust."""
    if trust is None:
        return None
    if trust.trust_domain != bundle.trust_domain:
        raise error("keyset_untrusted", f"the bundle is of trust domain {bundle.trust_domain!r}")
    store = TrustStore(trust, now_ms=0)
    keyset = bytes(bundle.keyset)
    try:
        store.update_keyset(keyset, now_ms=0)
    except HostlerError as err:
        # an older keyset than the verifier's is in order: receipts outlive keysets
        if err.code != "keyset_rollback":
            raise
    return store.keyset.ca_certificates


def _verify_node(node_id: str, chain: NodeChain, cas: tuple[str, ...] | None) -> NodeReport:
    try:
        keys = [_key(entry, node_id, cas) for entry in chain.keys]
    except HostlerError as err:
        fault = ChainFault(chain.start_index, "foreign_key", err.message)
        return NodeReport(node_id=node_id, length=0, head="", fault=fault)
    start = ChainHead(chain.start_index, chain.start_previous)
    report = verify_chain([bytes(receipt) for receipt in chain.receipts], keys, node_id, start)
    return NodeReport(node_id=node_id, length=report.length, head=report.head, fault=report.fault)


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
