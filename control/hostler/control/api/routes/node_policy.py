"""What keeps a node from being lent or used: cordon, drain, quarantine, and how each ends (API-21, EF-07, AL-08)."""

import msgspec

from hostler.control.api.allocation_bodies import (
    Action,
    Breaker,
    Cordon,
    NodeHealth,
    NodeRecovered,
    NodeScheduling,
    Probed,
    Why,
)
from hostler.control.api.call import Call
from hostler.control.api.routes.nodes import named_node
from hostler.control.kernel.allocation_commands import ClearNode, CloseBreaker, CordonNode, ProbeNode, QuarantineNode
from hostler.control.kernel.allocation_states import CORDONED, DRAINING
from hostler.control.kernel.node_commands import RecoverNode
from hostler.control.kernel.quarantine import BREAKER


async def cordon(call: Call) -> NodeScheduling:
    return await _wish(call, CORDONED)


async def drain(call: Call) -> NodeScheduling:
    """What runs finishes; nothing of a tenant's starts any more."""
    return await _wish(call, DRAINING)


async def uncordon(call: Call) -> NodeScheduling:
    """Lifts the party's own cordon or drain."""
    return await _wish(call, "")


async def _wish(call: Call, kind: str) -> NodeScheduling:
    node, body = await named_node(call), await call.body(Cordon)
    scheduling = await call.execute(
        CordonNode(actor=call.principal.actor(), node_id=node.node_id, owner=body.owner, kind=kind, reason=body.reason)
    )
    return NodeScheduling(node.node_id, scheduling)


async def quarantine(call: Call) -> NodeHealth:
    node, body = await named_node(call), await call.body(Why)
    await call.execute(QuarantineNode(actor=call.principal.actor(), node_id=node.node_id, reason=body.reason))
    return await _health(call)


async def clear(call: Call) -> NodeHealth:
    """A person vouches for the node; one whose lease has not ended clean is let out by its chain alone."""
    node, body = await named_node(call), await call.body(Why)
    await call.execute(ClearNode(actor=call.principal.actor(), node_id=node.node_id, reason=body.reason))
    return await _health(call)


async def _health(call: Call) -> NodeHealth:
    node = await named_node(call)
    return NodeHealth(node.node_id, node.health)


async def probe(call: Call) -> tuple[int, Probed]:
    """202: a reclaim verification outside any chain."""
    node = await named_node(call)
    operation_id = await call.execute(
        ProbeNode(actor=call.principal.actor(), node_id=node.node_id, correlation_id=call.correlation_id)
    )
    return 202, Probed(operation_id, node.project_id)


async def recover(call: Call) -> NodeRecovered:
    """What was done, and what is left for others to do."""
    node, body = await named_node(call), await call.body(Why)
    done = await call.execute(
        RecoverNode(
            actor=call.principal.actor(),
            node_id=node.node_id,
            reason=body.reason,
            correlation_id=call.correlation_id,
        )
    )
    did = tuple(Action(**msgspec.structs.asdict(each)) for each in done.did)
    return NodeRecovered(node_id=done.node_id, did=did, remains=done.remains)


async def breaker(call: Call) -> Breaker:
    """Whether failed verifications hold nodes rather than quarantine them (R3)."""
    return Breaker(int(await call.engine.reader.meta(BREAKER) or 0))


async def close_breaker(call: Call) -> Breaker:
    body = await call.body(Why)
    await call.execute(CloseBreaker(actor=call.principal.actor(), reason=body.reason))
    return await breaker(call)
