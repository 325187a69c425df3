"""The audit log, audit bundles, checkpoints, and what witnesses say of them."""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.api import pages
from hostler.control.api.bodies import Countersigned
from hostler.control.api.call import Call
from hostler.control.kernel.commands import RecordCountersignature
from hostler.control.store.records import AuditView, Page, StoredCheckpoint
from hostler.pki import dsse
from hostler.pki.chain import is_receipt
from hostler.pki.checkpoint import (
    CheckpointPage,
    CheckpointRecord,
    Countersignature,
    Head,
    open_countersignature,
    witness_keys,
)
from hostler.pki.keys import PublicKey

MAX_WITH_RECEIPTS = 50  # checkpoints in a page, each with every receipt since the one before


async def bundle(call: Call) -> Any:
    """The whole receipt chain of one node, or with all=true of every node."""
    node_id, everything = call.query("node_id"), call.query("all")
    if everything not in ("", "true", "false"):
        raise error("invalid_request", "all is true or false", pointer="/all")
    if bool(node_id) == (everything == "true"):
        raise error("invalid_request", "name a node_id, or ask for all=true", pointer="/node_id")
    if not node_id:
        return await call.parts.bundles.make(call.engine.reader)
    node = await call.engine.reader.node(node_id)
    if node is None:
        raise error("not_found", f"there is no node {node_id!r}")
    return await call.parts.bundles.make(call.engine.reader, node_id=node.node_id)


async def log(call: Call) -> Page[AuditView]:
    """Newest first."""
    size = pages.size_of(call.query("page_size"))
    action, actor = call.query("action"), call.query("actor")
    return await call.engine.reader.audit_page(call.query("cursor"), size, action, actor)


async def checkpoints(call: Call) -> CheckpointPage:
    """Oldest first. With receipts=true each comes with the receipts by which its heads moved."""
    wanted = call.query("receipts")
    if wanted not in ("", "true", "false"):
        raise error("invalid_request", "receipts is true or false", pointer="/receipts")
    size = min(pages.size_of(call.query("page_size")), MAX_WITH_RECEIPTS if wanted == "true" else pages.MAX_SIZE)
    start = call.query("cursor") or pages.checkpoint_cursor(call.query("after"))
    found, cursor = await call.engine.reader.checkpoints(start, size)
    items = [await _record(call, each, with_receipts=wanted == "true") for each in found]
    keysets = tuple(msgspec.Raw(each) for each in call.parts.bundles.keysets())
    return CheckpointPage(items=tuple(items), keysets=keysets, next_cursor=cursor)


async def countersign(call: Call) -> tuple[int, Countersigned]:
    """Takes a witness's word on a checkpoint, if its key is a witness of the keyset."""
    document = await call.bytes()
    word, key = _verified(call, document)
    index = call.path("index")
    if index != str(word.index):
        raise error("invalid_request", f"the countersignature is about checkpoint {word.index}", pointer="/index")
    await call.execute(
        RecordCountersignature(
            actor=call.principal.actor(),
            index=word.index,
            checkpoint=word.checkpoint,
            keyid=key.key_id,
            document=document,
        )
    )
    return 201, Countersigned(word.index, key.key_id)


def _verified(call: Call, document: bytes) -> tuple[Countersignature, PublicKey]:
    """Raises `malformed_envelope`, `untrusted_key`, `bad_signature`."""
    named = {signature.keyid for signature in dsse.from_json(document).signatures}
    keys = [key for key in witness_keys(call.engine.trust.keyset) if key.key_id in named]
    if not keys:
        raise error("untrusted_key", "it is not signed by a witness of the keyset")
    return open_countersignature(document, keys[0]), keys[0]


async def _record(call: Call, stored: StoredCheckpoint, *, with_receipts: bool) -> CheckpointRecord:
    reader = call.engine.reader
    moved = await reader.heads_moved(stored.index)
    receipts = {head.node_id: await reader.receipts_of_move(head) for head in moved} if with_receipts else {}
    return CheckpointRecord(
        msgspec.Raw(stored.envelope),
        tuple(Head(head.node_id, head.length, head.digest) for head in moved),
        {node_id: tuple(map(msgspec.Raw, filter(is_receipt, found))) for node_id, found in receipts.items()},
        tuple(map(msgspec.Raw, stored.countersignatures)),
    )
