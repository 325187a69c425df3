"""Audit bundles: receipt chains from the store, with the CA's word for whose key signed them."""

import base64
from collections.abc import Iterable

import msgspec

from hostler.base.clock import Clock
from hostler.control.store.records import NodeReceipts
from hostler.pki.authority import Authority
from hostler.pki.bundle import NodeChain, NodeKey, build_bundle
from hostler.pki.keys import PublicKey


class Bundles:
    """The certificate in a bundle is issued for it: it says that this key is this node's, today."""

    def __init__(self, authority: Authority, trust_domain: str, keyset: bytes, clock: Clock) -> None:
        self._authority = authority
        self._trust_domain = trust_domain
        self._keyset = keyset
        self._clock = clock

    def build(self, chains: Iterable[NodeReceipts]) -> bytes:
        nodes = {
            chain.node_id: NodeChain((self._key(chain),), tuple(msgspec.Raw(r) for r in chain.receipts))
            for chain in chains
        }
        return build_bundle(self._trust_domain, self._keyset, nodes)

    def _key(self, chain: NodeReceipts) -> NodeKey:
        key = PublicKey(chain.public_key)
        pem = self._authority.issue_node(chain.node_id, key, self._clock.now_ms())
        return NodeKey(base64.b64encode(chain.public_key).decode(), pem.decode())
