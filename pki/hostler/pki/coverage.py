"""What checkpoints say about the chains of a bundle: how far they are covered, and where one falls short.

Every head that is used here has been proved to be a leaf of a signed checkpoint.
"""

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from hostler.base.errors import HostlerError
from hostler.pki.chain import ChainFault, receipt_digest
from hostler.pki.checkpoint import Checkpoint, Head, is_witnessed, open_checkpoint, witnesses_of
from hostler.pki.keys import PublicKey
from hostler.pki.keyset import Keyset
from hostler.pki.merkle import is_included


class Included(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's head in a checkpoint, with the proof: `index` of its leaf, hex hashes from the leaf up."""

    index: int
    length: int
    digest: str
    path: tuple[str, ...]


class BundleCheckpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    envelope: msgspec.Raw
    included: dict[str, Included] = {}
    countersignatures: tuple[msgspec.Raw, ...] = ()


class BundleFault(msgspec.Struct, frozen=True):
    """Something wrong with the whole rather than with one chain; `code` is an error code."""

    code: str
    message: str


class CheckpointReport(msgspec.Struct, frozen=True, kw_only=True):
    """`witnesses` are key ids; `witnessed` says that they are enough for the keyset."""

    index: int
    digest: str
    at_ms: int
    nodes: int
    receipts: int
    witnesses: tuple[str, ...]
    witnessed: bool


class Opened(msgspec.Struct, frozen=True):
    """A checkpoint that is signed, and the heads that were proved to be in it."""

    checkpoint: Checkpoint
    report: CheckpointReport
    heads: dict[str, Head]
    unproved: tuple[str, ...]


def open_all(
    checkpoints: Iterable[BundleCheckpoint], keys: Sequence[PublicKey], keyset: Keyset
) -> tuple[list[Opened], list[BundleFault]]:
    """The signed ones, oldest first, and what is wrong with or between them."""
    found: list[Opened] = []
    faults: list[BundleFault] = []
    for entry in checkpoints:
        try:
            found.append(_open(entry, keys, keyset))
        except HostlerError as err:
            faults.append(BundleFault(err.code, f"a checkpoint of the bundle does not hold: {err.message}"))
    found.sort(key=lambda opened: opened.checkpoint.index)
    for older, newer in itertools.pairwise(found):
        faults += compare(older.checkpoint, newer.checkpoint)
    return found, faults


def compare(older: Checkpoint, newer: Checkpoint) -> list[BundleFault]:
    """What two checkpoints alone give away, the first of them made or seen before the second."""
    place = f"checkpoint {newer.index}"
    if (older.trust_domain, older.cluster_id) != (newer.trust_domain, newer.cluster_id):
        return [BundleFault("audit_fork", f"{place} is of another control plane than {older.index}")]
    if newer.index < older.index:
        return [BundleFault("audit_rollback", f"{place} is the newest, but {older.index} was seen before")]
    if newer.index == older.index:
        same = newer.digest == older.digest
        return [] if same else [BundleFault("audit_fork", f"there are two different checkpoints {newer.index}")]
    if newer.index == older.index + 1 and newer.previous != older.digest:
        return [BundleFault("audit_fork", f"{place} does not follow the checkpoint {older.index} that is shown")]
    if newer.nodes < older.nodes:
        return [BundleFault("audit_rollback", f"{place} hides nodes: {newer.nodes} after {older.nodes}")]
    if newer.receipts < older.receipts or newer.control_epoch < older.control_epoch:
        return [BundleFault("audit_rollback", f"{place} goes back behind checkpoint {older.index}")]
    return []


def left_out(opened: Sequence[Opened], present: Iterable[str]) -> list[BundleFault]:
    """A fault where the newest checkpoint is over more chains than are present and proved."""
    if not opened:
        return [BundleFault("audit_incomplete", "there is no checkpoint that says how many chains there are")]
    newest, here = opened[-1], set(present)
    held = sum(node_id in here for node_id in newest.heads)
    if held == newest.checkpoint.nodes:
        return []
    place = f"checkpoint {newest.checkpoint.index}"
    return [BundleFault("audit_incomplete", f"{held} of the {newest.checkpoint.nodes} chains of {place} are here")]


def since(seen: Sequence[Opened], opened: Sequence[Opened], gone: Sequence[str]) -> list[BundleFault]:
    """What shows only beside an earlier bundle: forks, rollbacks, and nodes that are hidden now.

    Args:
        seen, opened: checkpoints of the earlier and of this bundle, oldest first.
        gone: nodes that the earlier bundle has and this one lacks.
    """
    if not seen:
        return []
    if not opened:
        return [BundleFault("audit_rollback", "there is no checkpoint any more")]
    now = {each.checkpoint.index: each.checkpoint for each in opened}
    pairs = [(old.checkpoint, now[old.checkpoint.index]) for old in seen if old.checkpoint.index in now]
    pairs.append((seen[-1].checkpoint, opened[-1].checkpoint))
    faults = [fault for older, newer in pairs for fault in compare(older, newer)]
    if opened[-1].checkpoint.nodes == len(opened[-1].heads):  # every node's chain is in this bundle
        faults += [BundleFault("audit_rollback", f"node {node_id} is hidden now") for node_id in gone]
    return list(dict.fromkeys(faults))


def first_difference(
    old_start: int, old: Sequence[msgspec.Raw], start: int, receipts: Sequence[msgspec.Raw]
) -> ChainFault | None:
    """The first index at which a chain does not extend the one that an earlier bundle has."""
    for index, receipt in enumerate(old, old_start):
        place = index - start
        if place >= len(receipts):
            return ChainFault(index, "truncated", f"receipts from {index} on are missing: the earlier bundle has them")
        if place >= 0 and bytes(receipts[place]) != bytes(receipt):
            return ChainFault(index, "replaced", "the earlier bundle has another receipt here")
    return None


def coverage(node_id: str, opened: Sequence[Opened], end: int) -> tuple[int, int]:
    """How many of a node's `end` receipts are covered by a checkpoint, and how many by a witnessed one."""
    covered = [(each.heads[node_id].length, each.report.witnessed) for each in opened if node_id in each.heads]
    reached = max((length for length, _ in covered), default=0)
    witnessed = max((length for length, is_seen in covered if is_seen), default=0)
    return min(reached, end), min(witnessed, end)


def vouched(node_id: str, opened: Sequence[Opened]) -> dict[int, str]:
    """Index → digest of the receipts of a node that checkpoints name."""
    heads = (each.heads[node_id] for each in opened if node_id in each.heads)
    return {head.length - 1: head.digest for head in heads}


def shortfall(node_id: str, start: int, receipts: Sequence[bytes], opened: Sequence[Opened]) -> ChainFault | None:
    """The first index at which a whole chain, good in itself, is not the one that checkpoints are over.

    Args:
        start: index of the first receipt.
    """
    end = start + len(receipts)
    was_in = False
    for each in opened:
        index = each.checkpoint.index
        # once in a checkpoint, a chain is in every later one: leaving the proof out would hide a cut-off end
        if node_id in each.unproved or (was_in and node_id not in each.heads):
            return ChainFault(start, "unproved", f"its place in checkpoint {index} is not proved")
        head = each.heads.get(node_id)
        was_in = was_in or head is not None
        if head is None or head.length <= start:
            continue
        if head.length > end:
            missing = f"receipts {end} to {head.length - 1} are missing: checkpoint {index} is over {head.length}"
            return ChainFault(end, "truncated", missing)
        if receipt_digest(receipts[head.length - 1 - start]) != head.digest:
            return ChainFault(head.length - 1, "replaced", f"another receipt stood here at checkpoint {index}")
    return None


def _open(entry: BundleCheckpoint, keys: Sequence[PublicKey], keyset: Keyset) -> Opened:
    checkpoint = open_checkpoint(bytes(entry.envelope), keys)
    proved = {node: Head(node, each.length, each.digest) for node, each in entry.included.items()}
    unproved = [node for node, each in entry.included.items() if not _is_proved(proved[node], each, checkpoint)]
    witnesses = witnesses_of(checkpoint, map(bytes, entry.countersignatures), keyset)
    report = CheckpointReport(
        index=checkpoint.index,
        digest=checkpoint.digest,
        at_ms=checkpoint.at_ms,
        nodes=checkpoint.nodes,
        receipts=checkpoint.receipts,
        witnesses=tuple(sorted(witnesses)),
        witnessed=is_witnessed(witnesses, keyset),
    )
    heads = {node: head for node, head in proved.items() if node not in unproved}
    return Opened(checkpoint, report, heads, tuple(unproved))


def _is_proved(head: Head, included: Included, checkpoint: Checkpoint) -> bool:
    try:
        path = [bytes.fromhex(step) for step in included.path]
        root = bytes.fromhex(checkpoint.root)
    except ValueError:
        return False
    return is_included(head.leaf(), included.index, checkpoint.nodes, path, root)
