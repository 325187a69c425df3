"""Spec → bytes → envelope. Signatures cover the payload; the stored form is sent unchanged on every retry."""

from hostler.base.digest import sha256_hex
from hostler.base.envelope import CANCEL_TYPE, TASK_TYPE
from hostler.control.kernel.audit_rows import CheckpointRow
from hostler.control.kernel.orders import CheckpointOrder
from hostler.control.kernel.rows import EnvelopeRow
from hostler.pki import dsse
from hostler.pki.checkpoint import Checkpoint, sign_checkpoint
from hostler.pki.keys import Signer
from hostler.wire.codec_node import encode_envelope
from hostler.wire.codec_task import encode_cancel, encode_task
from hostler.wire.task import CancelSpec, TaskSpec


def seal(spec: TaskSpec | CancelSpec, signer: Signer, now_ms: int) -> EnvelopeRow:
    """The signed envelope of a task or a cancel, as a row. Its digest is that of the bytes sent."""
    if isinstance(spec, TaskSpec):
        kind, payload, payload_type = "task", encode_task(spec), TASK_TYPE
    else:
        kind, payload, payload_type = "cancel", encode_cancel(spec), CANCEL_TYPE
    envelope = encode_envelope(dsse.sign(payload, payload_type, (signer,)))
    return EnvelopeRow(
        node_id=spec.node_id,
        sequence=spec.sequence,
        task_id=spec.task_id,
        kind=kind,
        digest=sha256_hex(envelope),
        envelope=envelope,
        signed_at_ms=now_ms,
        expires_at_ms=spec.expires_at_ms,
    )


def seal_checkpoint(
    order: CheckpointOrder, signer: Signer, *, control_epoch: int, trust_domain: str, cluster_id: str
) -> CheckpointRow:
    """The signed checkpoint, as a row."""
    checkpoint = Checkpoint(
        index=order.index,
        previous=order.previous,
        root=order.root,
        nodes=order.nodes,
        receipts=order.receipts,
        at_ms=order.at_ms,
        control_epoch=control_epoch,
        trust_domain=trust_domain,
        cluster_id=cluster_id,
    )
    envelope = sign_checkpoint(checkpoint, signer)
    return CheckpointRow(order.index, checkpoint.digest, order.nodes, order.receipts, order.at_ms, envelope)
