"""How principals and the pool's nodes are changed."""

import httpx

from hostler.control.kernel.quarantine import BREAKER
from hostler.control.kernel.sessions import CLONED
from support.audited.told import ADMIN, CHANGED, GONE, MADE, WHY, story
from support.lending import BASE, NODES, Place

# -- who there is ---------------------------------------------------------------------------------


async def _principal(at: Place) -> httpx.Response:
    body = {"name": "cleo", "role": "project_member", "org_id": "acme", "project_id": "train"}
    return await at.admin.post(f"{ADMIN}/principals", json=body)


story(MADE, "principals.create")(_principal)


@story(GONE, "principals.revoke")
async def principal_revoked(at: Place) -> httpx.Response:
    await _principal(at)
    return await at.admin.delete(f"{ADMIN}/principals/cleo")


@story(MADE, "nodes.create_token")
async def token_made(at: Place) -> httpx.Response:
    body = {"node_name": "gpu-9", "org_id": "acme", "project_id": "train"}
    return await at.admin.post(f"{ADMIN}/enrolment-tokens", json=body)


@story(CHANGED, "nodes.revoke")
async def node_revoked(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/revoke")


@story(CHANGED, "nodes.release")
async def node_released(at: Place) -> httpx.Response:
    _seen_twice(at)
    return await at.admin.post(f"{NODES}/{at.nodes[0].node_id}/release")


def _seen_twice(at: Place) -> None:
    at.fleet.engine._db.execute("UPDATE nodes SET hold = ?", (CLONED,))
    at.fleet.engine._view.forget()


# -- the pool -------------------------------------------------------------------------------------


@story(MADE, "allocations.create")
async def lent(at: Place) -> httpx.Response:
    return await at.admin.post(BASE, json={"org_id": "acme"})


@story(CHANGED, "allocations.release")
async def given_back(at: Place) -> httpx.Response:
    return await at.admin.post(f"{BASE}/{await at.active()}/release")


async def _stuck(at: Place) -> str:
    allocation_id = await at.active()
    await at.admin.post(f"{BASE}/{allocation_id}/release")
    await at.work(fail="allocation.identity.revoke")
    return allocation_id


@story(CHANGED, "allocations.force_release")
async def forced(at: Place) -> httpx.Response:
    return await at.admin.post(f"{BASE}/{await _stuck(at)}/force-release", json=WHY)


@story(CHANGED, "allocations.retry")
async def tried_again(at: Place) -> httpx.Response:
    return await at.admin.post(f"{BASE}/{await _stuck(at)}/retry")


@story(CHANGED, "node_policy.cordon")
async def cordoned(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/cordon", json={"owner": "ops", **WHY})


@story(CHANGED, "node_policy.drain")
async def drained(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/drain", json={"owner": "ops", **WHY})


@story(CHANGED, "node_policy.uncordon")
async def uncordoned(at: Place) -> httpx.Response:
    await drained(at)
    return await at.admin.post(f"{NODES}/pool-0/uncordon", json={"owner": "ops", **WHY})


@story(CHANGED, "node_policy.quarantine")
async def quarantined(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/quarantine", json=WHY)


@story(CHANGED, "node_policy.clear")
async def cleared(at: Place) -> httpx.Response:
    await quarantined(at)
    return await at.admin.post(f"{NODES}/pool-0/clear", json=WHY)


@story(MADE, "node_policy.probe")
async def probed(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/probe")


@story(CHANGED, "node_policy.recover")
async def recovered(at: Place) -> httpx.Response:
    _seen_twice(at)
    return await at.admin.post(f"{NODES}/pool-0/recover", json=WHY)


@story(CHANGED, "node_policy.close_breaker")
async def closed(at: Place) -> httpx.Response:
    at.fleet.engine._db.execute("INSERT INTO meta (name, value) VALUES (?, '1')", (BREAKER,))
    return await at.admin.post(f"{ADMIN}/quarantine/breaker/close", json=WHY)
