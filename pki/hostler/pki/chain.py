"""The receipt chain of a node: every receipt names the digest of the one before it.

`verify_chain` needs nothing but the receipts and the node's key, and names the first index at which what
should be there is not: altered, dropped, reordered, inserted, or signed by a foreign key.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from hostler.base.digest import sha256_hex
from hostler.base.envelope import STATEMENT_TYPE
from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.keys import PublicKey

# The last four come from checkpoints: the end is missing, the chain or the proof is another, no witness has seen it.
FaultKind = Literal[
    "altered", "dropped", "reordered", "inserted", "foreign_key", "truncated", "replaced", "unproved", "unwitnessed"
]


_NOTHING: Mapping[int, str] = {}


class ChainHead(msgspec.Struct, frozen=True):
    """Where the next receipt goes: its index, and the digest it must name."""

    next_index: int = 0
    digest: str = ""


class ChainFault(msgspec.Struct, frozen=True):
    index: int
    kind: FaultKind
    message: str


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """`length` receipts were found good before the fault, if there is one."""

    ok: bool
    length: int
    head: str
    fault: ChainFault | None = None


class _Link(msgspec.Struct):
    node_id: str
    index: int
    previous: str


class _Predicate(msgspec.Struct):
    chain: _Link


class _Statement(msgspec.Struct):
    predicate: _Predicate


_DECODER = msgspec.json.Decoder(_Statement)


def receipt_digest(receipt: bytes) -> str:
    """Digest of a receipt as it was sent (DSSE JSON); what the next one names."""
    return sha256_hex(receipt)


def verify_chain(
    receipts: Sequence[bytes],
    keys: Sequence[PublicKey],
    node_id: str,
    start: ChainHead = ChainHead(),  # noqa: B008 - frozen
    known: Mapping[int, str] = _NOTHING,
) -> ChainReport:
    """Checks every receipt in turn.

    Args:
        receipts: DSSE JSON, in the order claimed.
        keys: the keys the node has had; enrolling again gives it a new one.
        start: where the excerpt begins; a whole chain begins at 0.
        known: index to digest, of receipts that somebody else vouches for.
    """
    head = start
    links = [_link(receipt) for receipt in receipts]
    claimed = [link.index if link else None for link in links]
    for position, receipt in enumerate(receipts):
        fault = _fault_at(receipt, links[position], head, claimed[position + 1 :], keys, node_id)
        fault = fault or _misplaced(receipts, links, position, known.get(head.next_index), head.next_index)
        if fault:
            return ChainReport(ok=False, length=position, head=head.digest, fault=fault)
        head = ChainHead(head.next_index + 1, receipt_digest(receipt))
    return ChainReport(ok=True, length=len(receipts), head=head.digest)


def advance(head: ChainHead, node_id: str, receipts: Iterable[bytes], up_to: int | None = None) -> ChainHead:
    """How far `receipts` lead on from `head`, by their links alone: no signature is looked at.

    Receipts that do not continue it are passed over, as a second history of the node's own would be.

    Args:
        receipts: sorted by index.
        up_to: the length to stop at.
    """
    for receipt in receipts:
        if head.next_index == up_to:
            break
        link = _link(receipt)
        if link is not None and (link.node_id, link.index, link.previous) == (node_id, head.next_index, head.digest):
            head = ChainHead(head.next_index + 1, receipt_digest(receipt))
    return head


def _fault_at(
    receipt: bytes,
    link: _Link | None,
    head: ChainHead,
    later: list[int | None],
    keys: Sequence[PublicKey],
    node_id: str,
) -> ChainFault | None:
    expected = head.next_index
    try:
        dsse.verify(dsse.from_json(receipt), STATEMENT_TYPE, keys)
    except HostlerError as err:
        if err.code == "untrusted_key":
            return ChainFault(expected, "foreign_key", "signed by a key that is not the node's")
        return ChainFault(expected, "altered", "the signature does not fit the content")
    if link is None or link.node_id != node_id:
        return ChainFault(expected, "inserted", "the receipt does not belong to this node's chain")
    if link.index > expected:
        if expected in later:
            return ChainFault(expected, "reordered", f"receipt {link.index} stands in its place")
        return ChainFault(expected, "dropped", f"the next receipt present is {link.index}")
    if link.index < expected:
        return ChainFault(expected, "inserted", f"receipt {link.index} stands here a second time")
    if link.previous != head.digest:
        return ChainFault(expected, "inserted", "it does not continue the receipt before it")
    return None


def _misplaced(
    receipts: Sequence[bytes], links: Sequence["_Link | None"], position: int, known: str | None, index: int
) -> ChainFault | None:
    """A receipt that fits what stands before it, although another one belongs in its place."""
    if known is not None and known != receipt_digest(receipts[position]):
        if known in map(receipt_digest, receipts[position + 1 :]):
            return ChainFault(index, "inserted", "the receipt that belongs here stands after it")
        return ChainFault(index, "replaced", "a checkpoint is over another receipt here")
    rivals = links[position : position + 3]
    if len(rivals) < 3 or rivals[0] != rivals[1] or rivals[2] is None:
        return None
    after = receipts[position + 1]
    if after != receipts[position] and rivals[2].previous == receipt_digest(after):
        return ChainFault(index, "inserted", "the chain goes on from the receipt after it")
    return None


def is_receipt(data: bytes) -> bool:
    """Whether it is one well-formed envelope and nothing around it: what can stand inside other JSON unchanged."""
    return _link(data) is not None


def _link(receipt: bytes) -> _Link | None:
    if receipt != receipt.strip():
        return None
    try:
        return _DECODER.decode(dsse.from_json(receipt).payload).predicate.chain
    except (HostlerError, msgspec.MsgspecError):
        return None


def read_statement(receipt: bytes) -> dict[str, Any]:
    """The statement inside a receipt, not verified; for showing."""
    statement: dict[str, Any] = msgspec.json.decode(dsse.from_json(receipt).payload)
    return statement
