"""Audit bundles: receipt chains from the store, with the certificates that say whose key signed them."""

import base64
from collections.abc import Iterable

import msgspec

from hostler.control.store.records import NodeReceipts
from hostler.pki.bundle import NodeChain, NodeKey, build_bundle


class Bundles:
    """Makes bundles that `hostler audit verify` checks with no network."""

    def __init__(self, trust_domain: str, keyset: bytes) -> None:
        self._trust_domain = trust_domain
        self._keyset = keyset

    def build(self, chains: Iterable[NodeReceipts]) -> bytes:
        nodes = {
            chain.node_id: NodeChain(
                (NodeKey(base64.b64encode(chain.public_key).decode(), chain.certificate),),
                tuple(msgspec.Raw(receipt) for receipt in chain.receipts),
            )
            for chain in chains
        }
        return build_bundle(self._trust_domain, self._keyset, nodes)
