"""What the root decided, who has proved to follow, and what hangs on which key (PK-08, T11)."""

import asyncio
from collections import Counter

from hostler.base.errors import error
from hostler.control.api.bodies import KeysetPublished, NodeProof, SignedTask, SignedTasks, TrustView
from hostler.control.api.call import Call
from hostler.control.kernel.commands import PublishKeyset
from hostler.control.store.records import NodeTrust
from hostler.pki import dsse
from hostler.pki.keyset import parse_keyset

MAX_KEYSET = 1 << 20


async def show(call: Call) -> TrustView:
    """The keyset in force, and for each node what it has proved."""
    engine = call.engine
    keyset = engine.trust.keyset
    rows = await engine.reader.trust_of_nodes()
    proofs = await asyncio.to_thread(_proofs, rows, keyset.version)
    signed = Counter(key for task in await engine.reader.assigned_to() for key in task.signed_by.split())
    return TrustView(
        keyset=engine.trust.state.keyset.decode(),
        keyset_version=keyset.version,
        control_epoch=keyset.control_epoch,
        expires_ms=keyset.expires_ms,
        nodes=proofs,
        proved=sum(proof.proved for proof in proofs),
        waiting=tuple(proof.name for proof in proofs if not proof.proved),
        open_tasks_by_key=dict(signed),
    )


async def publish(call: Call) -> tuple[int, KeysetPublished]:
    """201. Refused unless enough roots signed it, and while this control plane could not go on under it."""
    data = await call.bytes(MAX_KEYSET)
    before = {row.task_id: row for row in await call.engine.reader.assigned_to()}
    replaces = call.engine.trust.keyset.version
    await call.execute(PublishKeyset(actor=call.principal.actor(), keyset=data, replaces=replaces))
    keyset = parse_keyset(dsse.from_json(data).payload)
    known = set(keyset.roles["dispatch"].keyids)
    affected = tuple(row.task_id for row in before.values() if not known & set(row.signed_by.split()))
    return 201, KeysetPublished(keyset.version, keyset.control_epoch, affected)


async def tasks(call: Call) -> SignedTasks:
    """The open tasks whose envelope the key `key_id` has signed: what a leak or a revocation touches."""
    wanted = call.query("key_id")
    if not wanted:
        raise error("invalid_request", "key_id is missing")
    rows = await call.engine.reader.assigned_to()
    signed = (row for row in rows if wanted in row.signed_by.split())
    return SignedTasks(tuple(SignedTask(row.task_id, row.operation_id, row.node_id, row.state) for row in signed))


def _proofs(rows: list[NodeTrust], version: int) -> tuple[NodeProof, ...]:
    from hostler.pki.x509 import issuer_key

    return tuple(
        NodeProof(
            node_id=row.node_id,
            name=row.name,
            connection=row.connection,
            keyset_version=row.keyset_version,
            proved=row.keyset_version >= version,
            ca_key=issuer_key(row.certificate_pem.encode()),
            certificate_expires_ms=row.certificate_expires_ms,
        )
        for row in rows
    )
