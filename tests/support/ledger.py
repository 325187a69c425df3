"""A control plane's receipts and checkpoints without the control plane: honest by itself, bent by the tests."""

import copy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.base.envelope import KEYSET_TYPE
from hostler.pki import dsse
from hostler.pki.bundle import NodeChain, NodeKey, build_bundle
from hostler.pki.chain import receipt_digest
from hostler.pki.checkpoint import Checkpoint, CheckpointRecord, Head, countersign, sign_checkpoint, tree_of
from hostler.pki.coverage import BundleCheckpoint, Included
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.keyset import KeyRole, RoleKeys, encode_key, keyset_payload, parse_keyset
from hostler.pki.statements import chain_link, sign_statement, step_statement
from support.keys import DOMAIN, NOW, Keys

CLUSTER = "main"


def keyset_with_witness(keys: Keys, *witnesses: FileSigner, threshold: int = 1) -> bytes:
    """The keys' own keyset, with these in the role `witness`."""
    keyset = parse_keyset(dsse.from_json(keys.keyset()).payload)
    named = {each.public.key_id: encode_key(each.public) for each in witnesses}
    role = RoleKeys(threshold, tuple(named))
    keyset = msgspec.structs.replace(
        keyset, keys=keyset.keys | named, roles=keyset.roles | {KeyRole.WITNESS.value: role}
    )
    return dsse.to_json(dsse.sign(keyset_payload(keyset), KEYSET_TYPE, [keys.root]))


@dataclass
class Ledger:
    """`records` are all checkpoints so far, `seen` the heads as of the last one."""

    keys: Keys = field(default_factory=Keys)
    witness: FileSigner = field(default_factory=new_ed25519)
    chains: dict[str, list[bytes]] = field(default_factory=dict)
    signers: dict[str, FileSigner] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    records: list[CheckpointRecord] = field(default_factory=list)
    seen: dict[str, Head] = field(default_factory=dict)
    words: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> "Ledger":
        """Another history from here on, by the same keys."""
        made = copy.copy(self)
        made.chains = {name: list(chain) for name, chain in self.chains.items()}
        made.checkpoints, made.records = list(self.checkpoints), list(self.records)
        made.seen, made.words = dict(self.seen), dict(self.words)
        return made

    def grow(self, node: str, count: int = 1, name: str = "s") -> "Ledger":
        """More receipts of a node, honestly signed and chained."""
        chain, signer = self.chains.setdefault(node, []), self.signers.setdefault(node, new_p256())
        for _ in range(count):
            previous = receipt_digest(chain[-1]) if chain else ""
            predicate = {"task_id": "t", "step_id": f"{name}{len(chain)}", "status": "succeeded"}
            link = chain_link(node, len(chain), previous)
            chain.append(sign_statement(step_statement(predicate, link), signer))
        return self

    def heads(self) -> dict[str, Head]:
        return {n: Head(n, len(chain), receipt_digest(chain[-1])) for n, chain in self.chains.items() if chain}

    def checkpoint(self, *, signer: FileSigner | None = None, **changes: Any) -> CheckpointRecord:
        """The next checkpoint over the chains as they are; `changes` bend its payload."""
        heads = self.heads()
        tree, _ = tree_of(heads.values())
        last = self.checkpoints[-1] if self.checkpoints else None
        values = {
            "index": last.index + 1 if last else 0,
            "previous": last.digest if last else "",
            "root": tree.root.hex(),
            "nodes": tree.size,
            "receipts": sum(head.length for head in heads.values()),
            "at_ms": NOW + len(self.checkpoints),
            "control_epoch": 1,
            "trust_domain": DOMAIN,
            "cluster_id": CLUSTER,
        }
        made = Checkpoint(**(values | changes))
        moved = tuple(head for name, head in sorted(heads.items()) if self.seen.get(name) != head)
        receipts = {head.node_id: self._moved(head) for head in moved}
        envelope = msgspec.Raw(sign_checkpoint(made, signer or self.keys.dispatch))
        record = CheckpointRecord(envelope, moved, receipts)
        self.checkpoints.append(made)
        self.records.append(record)
        self.seen = heads
        return record

    def countersign(self, signer: FileSigner | None = None) -> "Ledger":
        """The newest checkpoint, by the witness or by somebody else."""
        last = self.checkpoints[-1]
        self.words[last.index] = countersign(last, signer or self.witness, NOW)
        return self

    def bundle(self, *, newest: int = 1, keyset: bytes = b"") -> bytes:
        """Everything, with proofs in the `newest` checkpoints."""
        nodes = {
            name: NodeChain((NodeKey(encode_key(self.signers[name].public)),), tuple(map(msgspec.Raw, chain)))
            for name, chain in self.chains.items()
        }
        states = [self._as_of(index) for index in range(len(self.records))]
        proved = [self._proved(index, states[index]) for index in range(len(self.records))][-newest:]
        return build_bundle(DOMAIN, keyset or keyset_with_witness(self.keys, self.witness), nodes, proved)

    def _moved(self, head: Head) -> tuple[msgspec.Raw, ...]:
        old = self.seen.get(head.node_id)
        return tuple(map(msgspec.Raw, self.chains[head.node_id][old.length if old else 0 :]))

    def _as_of(self, index: int) -> dict[str, Head]:
        return {head.node_id: head for record in self.records[: index + 1] for head in record.heads}

    def _proved(self, index: int, heads: dict[str, Head]) -> BundleCheckpoint:
        tree, places = tree_of(heads.values())
        included = {
            name: Included(
                places[name], head.length, head.digest, tuple(step.hex() for step in tree.path(places[name]))
            )
            for name, head in heads.items()
        }
        words = (msgspec.Raw(self.words[index]),) if index in self.words else ()
        return BundleCheckpoint(self.records[index].envelope, included, words)
