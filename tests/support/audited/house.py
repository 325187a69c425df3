"""How definitions, policies, trust and webhooks are changed."""

from typing import Any

import httpx

from hostler.base.digest import sha256_hex
from hostler.catalog.manifest import write_bundle
from hostler.control.loops.checkpoints import CheckpointMaker
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.checkpoint import countersign, open_checkpoint
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import KeyRole, parse_keyset
from hostler.pki.rotation import grant, successor
from hostler.wire.report import TaskReport, TaskStatus
from support.audited.told import ADMIN, CHANGED, GONE, MADE, story
from support.builders import catalog_bundle, definition
from support.keys import NOW
from support.ledger import Ledger
from support.lending import Place

# -- definitions, policies, trust -----------------------------------------------------------------


@story(CHANGED, "definitions.register")
async def registered(at: Place) -> httpx.Response:
    manifest, documents = catalog_bundle(at.fleet.keys, (definition(), definition(version="v2")), version=2)
    return await at.admin.post(f"{ADMIN}/operation-definitions", content=write_bundle(manifest, documents))


@story(CHANGED, "definitions.describe")
async def described(at: Place) -> httpx.Response:
    return await at.admin.patch(f"{ADMIN}/operation-definitions/demo.write@v1", json={"description": "other words"})


@story(CHANGED, "definitions.deprecate")
async def deprecated(at: Place) -> httpx.Response:
    return await at.admin.post(f"{ADMIN}/operation-definitions/demo.write@v1/deprecate")


@story(CHANGED, "definitions.retire")
async def retired(at: Place) -> httpx.Response:
    await deprecated(at)
    return await at.admin.post(f"{ADMIN}/operation-definitions/demo.write@v1/retire")


@story(MADE, "policies.put_global")
async def policy_global(at: Place) -> httpx.Response:
    return await at.admin.put(f"{ADMIN}/operation-policies/demo.write", json={"timeout_seconds": 9})


@story(MADE, "policies.put_tenant")
async def policy_tenant(at: Place) -> httpx.Response:
    return await at.admin.put("/api/v1/tenants/acme/operation-policies/demo.write", json={"timeout_seconds": 9})


@story(CHANGED, "policies.put_project")
async def policy_project(at: Place) -> httpx.Response:
    path = "/api/v1/projects/train/operation-policies/demo.write"
    await at.admin.put(path, json={"timeout_seconds": 9})
    return await at.admin.put(path, json={"timeout_seconds": 8})


async def _with_witness(at: Place, key: Any) -> httpx.Response:
    present = parse_keyset(dsse.from_json(at.fleet.engine.trust.state.keyset).payload)
    following = grant(successor(present, NOW), KeyRole.WITNESS, key.public)
    return await at.admin.post(f"{ADMIN}/trust/keyset", content=sign_keyset(following, [at.fleet.keys.root]))


@story(CHANGED, "trust.publish")
async def published(at: Place) -> httpx.Response:
    return await _with_witness(at, new_ed25519())


@story(MADE, "audit.countersign")
async def countersigned(at: Place) -> httpx.Response:
    witness = new_ed25519()
    assert (await _with_witness(at, witness)).status_code == 201
    node, ledger = await at.fleet.node("gpu-1"), Ledger()
    ledger.grow(node.node_id, 1)
    (receipt,) = ledger.chains[node.node_id]
    told = {"receipt": receipt, "receipt_digest": sha256_hex(receipt), "chain_index": 0}
    await at.fleet.report(node, TaskReport(task_id="", attempt_uid="", status=TaskStatus.REFUSED, **told))
    assert await CheckpointMaker(at.fleet.engine).make() == 0
    stored = await at.fleet.engine.reader.newest_checkpoint()
    assert stored is not None
    checkpoint = open_checkpoint(stored.envelope, [at.fleet.keys.dispatch.public])
    word = countersign(checkpoint, witness, NOW)
    return await at.admin.post(f"{ADMIN}/checkpoints/0/countersignatures", content=word)


# -- webhooks -------------------------------------------------------------------------------------


def _webhook_stories(base: str, suffix: str) -> None:
    async def hook(at: Place) -> httpx.Response:
        if not at.fleet.engine._view.nodes_named("gpu-1"):
            await at.fleet.node("gpu-1")  # whose project it becomes
        return await at.admin.post(base, json={"url": "https://hooks.example.com/in/secret-way"})

    async def one(at: Place) -> str:
        return f"{base}/{(await hook(at)).json()['webhook_id']}"

    async def removed(at: Place) -> httpx.Response:
        return await at.admin.delete(await one(at))

    async def enabled(at: Place) -> httpx.Response:
        path = await one(at)
        at.fleet.engine._db.execute("UPDATE webhooks SET state = 'disabled'")
        at.fleet.engine._view.forget()
        return await at.admin.post(f"{path}/enable")

    async def tried(at: Place) -> httpx.Response:
        return await at.admin.post(f"{await one(at)}/test")

    async def resent(at: Place) -> httpx.Response:
        path = await one(at)
        parked = "INSERT INTO webhook_parked SELECT webhook_id, 1, 'operation.failed', 1, 'no', 'parked' FROM webhooks"
        at.fleet.engine._db.execute(parked)
        return await at.admin.post(f"{path}/resend")

    story(MADE, f"webhooks.create{'_for_all' if suffix else ''}")(hook)
    story(CHANGED, f"webhooks.resend{suffix}")(resent)
    story(GONE, f"webhooks.delete{suffix}")(removed)
    story(CHANGED, f"webhooks.enable{suffix}")(enabled)
    story(MADE, f"webhooks.test{suffix}")(tried)


_webhook_stories(f"{ADMIN}/webhooks", "_any")
_webhook_stories("/api/v1/projects/train/webhooks", "")
