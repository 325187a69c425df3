"""Checkpoints over all receipt chains, and the witnesses' answers: kept, never changed."""

from hostler.base.errors import error
from hostler.control.kernel import events
from hostler.control.kernel.audit_rows import CheckpointHeadRow, CheckpointRow, CountersignatureRow
from hostler.control.kernel.changes import made
from hostler.control.kernel.commands import MakeCheckpoint, RecordCountersignature
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.orders import CheckpointOrder


def make(draft: Draft, command: MakeCheckpoint) -> Decision:
    """The next checkpoint, to be signed by the engine; its index is the answer.

    Raises `internal_error` for one that was made from an older look at the store.
    """
    last = draft.view.latest_checkpoint()
    index, previous = (last.checkpoint_index + 1, last.digest) if last else (0, "")
    if command.index != index:
        raise error("internal_error", f"checkpoint {command.index} was made, but {index} is next")
    at_ms = max(draft.now_ms, last.at_ms if last else 0)  # a clock set back must not look like a rollback
    draft.orders[("", index)] = CheckpointOrder(
        index=index,
        previous=previous,
        root=command.root,
        nodes=command.nodes,
        receipts=command.receipts,
        at_ms=at_ms,
    )
    for head in command.heads:
        draft.insert(CheckpointHeadRow(head.node_id, head.length, head.digest, index))
    return draft.decision(index)


def record_countersignature(draft: Draft, command: RecordCountersignature) -> Decision:
    """Kept once for each key. The engine has verified it before the kernel."""
    checkpoint = draft.get(CheckpointRow, command.index)
    if checkpoint is None or checkpoint.digest != command.checkpoint:
        raise error("not_found", f"there is no checkpoint {command.index} with that digest")
    if draft.get(CountersignatureRow, (command.index, command.keyid)) is not None:
        return draft.decision()
    draft.insert(CountersignatureRow(command.index, command.keyid, command.document, draft.now_ms))
    draft.events.append(
        events.admin_event(
            "checkpoint.countersigned",
            f"checkpoints/{command.index}",
            draft.now_ms,
            actor=command.actor,
            action="checkpoint.countersign",
            change=made(checkpoint=command.checkpoint, keyid=command.keyid),
            keyid=command.keyid,
        )
    )
    return draft.decision()
