"""The witness: a second party that countersigns a checkpoint only if it extends every one it has seen.

    state ──follow(checkpoints)──▶ new state ──save──▶ countersign

It keeps the head of every chain, so that a chain that shrank, a node that vanished and a root over other heads
than those shown are seen at once. `follow` decides and signs nothing; whoever calls it saves the new state before
a countersignature leaves, or a crash could make the witness forget what it has sworn to.
"""

from collections.abc import Sequence

import msgspec

from hostler.base.errors import error
from hostler.pki.chain import ChainHead, advance
from hostler.pki.checkpoint import Checkpoint, CheckpointRecord, Head, open_checkpoint, tree_of
from hostler.pki.keys import PublicKey


class WitnessState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a witness remembers: the last checkpoint it accepted, and every chain's head as of then.

    Attributes:
        envelope: that checkpoint as the control plane signed it (DSSE JSON): evidence, should there be another.
    """

    last: Checkpoint | None = None
    envelope: str = ""
    heads: dict[str, Head] = {}

    @property
    def index(self) -> int:
        """-1 before the first."""
        return self.last.index if self.last else -1

    @property
    def digest(self) -> str:
        return self.last.digest if self.last else ""


def follow(state: WitnessState, records: Sequence[CheckpointRecord], keys: Sequence[PublicKey]) -> WitnessState:
    """The state after all of `records`, which are consecutive, oldest first.

    Records that the witness has seen are no news, but they have to lead to the one it remembers.

    Args:
        keys: the dispatch keys that may sign checkpoints.

    Raises:
        HostlerError: `audit_fork`, `audit_rollback`, `audit_incomplete`; `untrusted_key` and its kin for a
            checkpoint that the control plane has not signed.
    """
    before: Checkpoint | None = None
    start = state
    for record in records:
        checkpoint = open_checkpoint(bytes(record.envelope), keys)
        if before is not None:
            _check_order(before, checkpoint)
        before = checkpoint
        if checkpoint.index > start.index:
            state = _step(state, checkpoint, record)
        elif checkpoint.index == start.index and checkpoint.digest != start.digest:
            raise error("audit_fork", f"checkpoint {checkpoint.index} is not the one that was seen before")
    if before is not None and before.index < start.index:
        raise error("audit_rollback", f"the newest checkpoint is {before.index}, but {start.index} was seen before")
    if before is None and start.last is not None:
        raise error("audit_rollback", f"there is no checkpoint, but {start.index} was seen before")
    return state


def _check_order(before: Checkpoint, after: Checkpoint) -> None:
    if after.index <= before.index:
        raise error("audit_fork", f"checkpoint {after.index} is shown after {before.index}")
    if after.index != before.index + 1:
        raise error("audit_incomplete", f"checkpoint {after.index} follows {before.index}")
    if after.previous != before.digest:
        raise error("audit_fork", f"checkpoint {after.index} does not follow the {before.index} that is shown")


def _step(state: WitnessState, checkpoint: Checkpoint, record: CheckpointRecord) -> WitnessState:
    """The state after one more checkpoint."""
    if checkpoint.index != state.index + 1:
        raise error("audit_incomplete", f"checkpoint {checkpoint.index} follows {state.index}")
    if checkpoint.previous != state.digest:
        raise error("audit_fork", f"checkpoint {checkpoint.index} does not follow the {state.index} that was seen")
    if state.last is not None:
        _check_same_source(state.last, checkpoint)
    heads = dict(state.heads)
    for head in record.heads:
        old = heads.get(head.node_id)
        _check_head(old, head, checkpoint.index)
        _check_growth(old, head, [bytes(receipt) for receipt in record.receipts.get(head.node_id, ())])
        heads[head.node_id] = head
    _check_root(checkpoint, heads)
    return WitnessState(last=checkpoint, envelope=bytes(record.envelope).decode(), heads=heads)


def _check_same_source(last: Checkpoint, checkpoint: Checkpoint) -> None:
    if (checkpoint.trust_domain, checkpoint.cluster_id) != (last.trust_domain, last.cluster_id):
        raise error("audit_fork", f"checkpoint {checkpoint.index} is of another control plane")
    if checkpoint.control_epoch < last.control_epoch:
        raise error("audit_rollback", f"checkpoint {checkpoint.index} is of an older control epoch")
    if checkpoint.at_ms < last.at_ms:
        raise error("audit_rollback", f"checkpoint {checkpoint.index} is dated before {last.index}")


def _check_head(old: Head | None, new: Head, index: int) -> None:
    if new.length < (old.length if old else 1):
        had = old.length if old else 1
        raise error("audit_rollback", f"checkpoint {index} has {new.length} receipts of {new.node_id}, not {had}")


def _check_growth(old: Head | None, new: Head, receipts: Sequence[bytes]) -> None:
    """The receipts shown have to lead from the head that is remembered to the new one: no history written anew."""
    start = ChainHead(old.length, old.digest) if old else ChainHead()
    if advance(start, new.node_id, receipts, new.length) != ChainHead(new.length, new.digest):
        reason = f"no receipts lead the chain of {new.node_id} from {start.next_index} to {new.length}"
        raise error("audit_fork", reason)


def _check_root(checkpoint: Checkpoint, heads: dict[str, Head]) -> None:
    """The root has to be over all heads ever seen: nobody is left out."""
    index = checkpoint.index
    if checkpoint.nodes < len(heads):
        raise error("audit_rollback", f"checkpoint {index} has {checkpoint.nodes} nodes, {len(heads)} were seen")
    receipts = sum(head.length for head in heads.values())
    if checkpoint.receipts < receipts:
        raise error("audit_rollback", f"checkpoint {index} counts {checkpoint.receipts} receipts, {receipts} were seen")
    tree, _ = tree_of(heads.values())
    if (checkpoint.nodes, checkpoint.receipts, checkpoint.root) != (tree.size, receipts, tree.root.hex()):
        raise error("audit_fork", f"the root of checkpoint {index} is over other chains than those shown")
