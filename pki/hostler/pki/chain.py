"""The receipt chain of a node: every receipt names the digest of the one before it.

`verify_chain` needs nothing but the receipts and the node's key, and names the first index at which what
should be there is not: altered, dropped, reordered, inserted, or signed by a foreign key.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hostler.base.digest import sha256_hex
from hostler.base.envelope import STATEMENT_TYPE
from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.keys import PublicKey

FaultKind = Literal["altered", "dropped", "reordered", "inserted", "foreign_key"]


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
) -> ChainReport:
    """Checks every receipt in turn.

    Args:
        receipts: DSSE JSON, in the order claimed.
        keys: the keys the node has had; enrolling again gives it a new one.
        start: where the excerpt begins; a whole chain begins at 0.
    """
    head = start
    links = [_link(receipt) for receipt in receipts]
    claimed = [link.index if link else None for link in links]
    for position, receipt in enumerate(receipts):
        fault = _fault_at(receipt, links[position], head, claimed[position + 1 :], keys, node_id)
        if fault:
            return ChainReport(ok=False, length=position, head=head.digest, fault=fault)
        head = ChainHead(head.next_index + 1, receipt_digest(receipt))
    return ChainReport(ok=True, length=len(receipts), head=head.digest)


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


def _link(receipt: bytes) -> _Link | None:
    try:
        return _DECODER.decode(dsse.from_json(receipt).payload).predicate.chain
    except (HostlerError, msgspec.MsgspecError):
        return None


def read_statement(receipt: bytes) -> dict[str, Any]:
    """The statement inside a receipt, not verified; for showing."""
    statement: dict[str, Any] = msgspec.json.decode(dsse.from_json(receipt).payload)
    return statement
