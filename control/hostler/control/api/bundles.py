"""Audit bundles: receipt chains from the store, with the certificates that say whose key signed them, and with
the proof that the newest checkpoint covers them."""

import asyncio
import base64
from collections.abc import Callable, Iterable, Sequence

import msgspec

from hostler.control.store.reader import Reader
from hostler.control.store.records import ChainReach, NodeReceipts, StoredCheckpoint
from hostler.pki.bundle import NodeChain, NodeKey, build_bundle
from hostler.pki.chain import is_receipt
from hostler.pki.checkpoint import Head, tree_of
from hostler.pki.coverage import BundleCheckpoint, Included


class Bundles:
    """Makes bundles that `hostler audit verify` checks with no network.

    Args:
        keysets: gives DSSE JSON, oldest first; the last one is in force.
    """

    def __init__(self, trust_domain: str, keysets: Callable[[], Sequence[bytes]]) -> None:
        self._trust_domain = trust_domain
        self.keysets = keysets

    async def make(self, reader: Reader, *, operation_id: str = "", node_id: str = "") -> bytes:
        """The whole chains of an operation's nodes, of one node, or of all. Checkpoints are read first: a chain
        that is read after them is never shorter than they say."""
        newest, witnessed = await reader.newest_checkpoint(), await reader.newest_witnessed()
        chosen = {each.index: each for each in (newest, witnessed) if each is not None}
        heads = {index: await reader.heads_as_of(index) for index in chosen}
        chains = await reader.receipts(operation_id=operation_id, node_id=node_id)
        return await asyncio.to_thread(self._build, chains, [(chosen[index], heads[index]) for index in sorted(chosen)])

    def _build(
        self, chains: Iterable[NodeReceipts], checkpoints: Iterable[tuple[StoredCheckpoint, list[ChainReach]]]
    ) -> bytes:
        nodes = {
            chain.node_id: NodeChain(
                (NodeKey(base64.b64encode(chain.public_key).decode(), chain.certificate),),
                tuple(map(_embedded, chain.receipts)),
            )
            for chain in chains
        }
        proved = [_with_proofs(checkpoint, heads, nodes) for checkpoint, heads in checkpoints]
        *history, keyset = self.keysets()
        return build_bundle(self._trust_domain, keyset, nodes, proved, history)


def _embedded(receipt: bytes) -> msgspec.Raw:
    """A receipt as it is; what is none becomes a text in its place, so that a node's rubbish breaks its own chain
    and not the bundle."""
    return msgspec.Raw(receipt if is_receipt(receipt) else msgspec.json.encode(base64.b64encode(receipt).decode()))


def _with_proofs(checkpoint: StoredCheckpoint, reached: Iterable[ChainReach], nodes: Iterable[str]) -> BundleCheckpoint:
    heads = {each.node_id: Head(each.node_id, each.length, each.digest) for each in reached}
    tree, places = tree_of(heads.values())
    included = {
        name: Included(
            places[name], heads[name].length, heads[name].digest, tuple(step.hex() for step in tree.path(places[name]))
        )
        for name in nodes
        if name in heads
    }
    words = tuple(msgspec.Raw(word) for word in checkpoint.countersignatures)
    return BundleCheckpoint(msgspec.Raw(checkpoint.envelope), included, words)
