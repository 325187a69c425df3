"""Nodes, and the tokens by which new ones join."""

import asyncio
from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.api import pages
from hostler.control.api.bodies import EnrolmentToken, NodeState, TokenMade
from hostler.control.api.call import Call
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.commands import CreateEnrolmentToken, ReleaseNode, RevokeNode
from hostler.control.store.agent_queries import FILTERS, WORDS
from hostler.control.store.agent_records import AdminNodes
from hostler.control.store.records import NodeMeasured, NodeView, Page
from hostler.control.store.samples import measured
from hostler.pki.tokens import new_enrolment_token

REPAIR_NEEDED = "certificate_only_repair_needed"  # the agent may still come back by itself (PK-05)


async def all_nodes(call: Call) -> AdminNodes:
    """With what is wanted of their agents and how far they are from it; the cards are over all nodes (LC-06)."""
    chosen = {name: call.query(name) for name in FILTERS if call.query(name)}
    for name, word in chosen.items():
        if word not in WORDS[name]:
            raise error("invalid_request", f"{name} is one of {', '.join(WORDS[name])}", pointer=f"/{name}")
    size = pages.size_of(call.query("page_size"))
    found = await call.engine.reader.agents.nodes(chosen, call.query("cursor"), size)
    shown = tuple(msgspec.structs.replace(node, **_seen(call, node)) for node in found.items)
    return msgspec.structs.replace(found, items=shown)


async def of_project(call: Call) -> Any:
    """Without the words that operators have for each other."""
    project_id, size = await call.project(), pages.size_of(call.query("page_size"))
    found = await call.engine.reader.nodes(None, project_id, call.query("cursor"), size)
    page = Page(tuple(_fresh(call, node) for node in found.items), found.next_cursor)
    shown = tuple(msgspec.structs.replace(node, worker_policy=(), health_reason="") for node in page.items)
    return Page(shown, page.next_cursor)


async def get(call: Call) -> Any:
    node, samples = _fresh(call, await named_node(call)), call.parts.samples
    newest = samples.newest(node.node_id) if samples else None
    return msgspec.structs.replace(node, telemetry=measured(newest)) if newest else node


async def telemetry(call: Call) -> Page[NodeMeasured]:
    """Oldest first, from `since` to `until` (Unix milliseconds). Nothing where nothing is kept."""
    node, size = await named_node(call), pages.size_of(call.query("page_size"))
    since, until = pages.moment_of(call.query("since"), 0), pages.moment_of(call.query("until"), pages.NO_END)
    file = call.parts.sample_file
    if file is None:
        return Page((), "")
    return await asyncio.to_thread(file.page, node.node_id, since, until, call.query("cursor"), size)


async def revoke(call: Call) -> NodeState:
    node = await named_node(call)
    await call.execute(RevokeNode(actor=call.principal.actor(), node_id=node.node_id))
    return NodeState(node.node_id, "revoked")


async def release(call: Call) -> NodeState:
    """A person has looked into why the node was held."""
    node = await named_node(call)
    await call.execute(ReleaseNode(actor=call.principal.actor(), node_id=node.node_id))
    return NodeState(node.node_id, node.state)


async def create_token(call: Call) -> tuple[int, TokenMade]:
    """201 with the token's text, once; only its hash is stored."""
    body = await call.body(EnrolmentToken)
    org_id, project_id = _owner(body)
    owner = await call.parts.projects.org_of(project_id)
    if owner and owner != org_id:
        raise error("target_not_owned", f"project {body.project_id!r} belongs to another tenant")
    token = new_enrolment_token()
    expires_at_ms = call.engine.clock.now_ms() + body.valid_seconds * 1000
    await call.execute(
        CreateEnrolmentToken(
            actor=call.principal.actor(),
            token_id=token.token_id,
            token_sha256=token.sha256,
            node_name=body.node_name,
            org_id=org_id,
            project_id=project_id,
            labels=body.labels,
            expires_at_ms=expires_at_ms,
        )
    )
    return 201, TokenMade(token.text, token.token_id, expires_at_ms)


def _owner(body: EnrolmentToken) -> tuple[str, str]:
    if body.pool:
        if body.org_id or body.project_id:
            raise error("invalid_request", "a node of the pool belongs to no tenant", pointer="/pool")
        return POOL, POOL
    if not body.org_id or not body.project_id:
        raise error("invalid_request", "name the tenant and project that own the node, or the pool", pointer="/org_id")
    return body.org_id, body.project_id


async def named_node(call: Call) -> NodeView:
    """The node in the path, by id or name. Raises `not_found`."""
    name = call.path("node_id")
    node = await call.engine.reader.node(name)
    if node is None:
        raise error("not_found", f"there is no node {name!r}")
    return node


def _fresh(call: Call, node: NodeView) -> NodeView:
    return msgspec.structs.replace(node, **_seen(call, node))


def _seen(call: Call, node: NodeView) -> dict[str, Any]:
    """A connected node was seen when its session last heard of it, which is not worth a commit each time."""
    link = call.parts.links.get(node.node_id)
    if link:
        return {"last_seen_ms": link.last_seen_ms}
    expired = 0 < node.certificate_expires_ms <= call.engine.clock.now_ms()
    return {"drift": REPAIR_NEEDED} if node.state == "active" and expired else {}
