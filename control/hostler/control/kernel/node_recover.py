"""`recover`: the next honest thing for a node in trouble, and a plain word about what is left (API-21, LC-20).

It ends the hold of an identity that was seen twice, sends what waited, tries a stuck link again, probes a node that its
chain has locked, and asks about tasks of which nothing has been heard. It never lifts what a person has decided, never
ends a hold that only the root's keys can end, and never revives what has failed (LC-18).
"""

from hostler.base.errors import HostlerError, error
from hostler.control.kernel import chain, events, node_probe, quarantine, task_probe
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.allocation_flow import allocation_of, move
from hostler.control.kernel.allocation_states import (
    CLEANING,
    DEGRADED,
    FAILED,
    L_HELD,
    LEASE_STUCK,
    QUARANTINED,
    SCHEDULABLE,
)
from hostler.control.kernel.assign import cursor_of
from hostler.control.kernel.changes import between
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.node_commands import Done, Recovered, RecoverNode
from hostler.control.kernel.nodes import end_hold
from hostler.control.kernel.rows import NodeRow
from hostler.control.kernel.sessions import CLONED, ROLLBACK, send_what_waited
from hostler.control.kernel.tasks import node_of, operation_of
from hostler.control.kernel.transitions import FINAL

MAX_REASON = 500
MOST_PROBES = 8  # tasks asked about by one call


class _Told:
    """What was done, and what remains."""

    def __init__(self) -> None:
        self.did: list[Done] = []
        self.remains: list[str] = []


def recover(draft: Draft, command: RecoverNode) -> Decision:
    """→ `Recovered`. Again: whatever is next then."""
    node = node_of(draft, command.node_id)
    if node.state != "active":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    before, told = _picture(node), _Told()
    _hold(draft, node, told)
    _chain(draft, node_of(draft, node.node_id), command, told)
    _work(draft, node_of(draft, node.node_id), command, told)
    _people(node_of(draft, node.node_id), told)
    draft.events.append(
        events.node_event(
            "node.recovered",
            node_of(draft, node.node_id),
            draft.now_ms,
            actor=command.actor,
            action="node.recover",
            reason=command.reason[:MAX_REASON],
            change=between(before, _picture(node_of(draft, node.node_id))),
            did=[(done.what, done.operation_id) for done in told.did],
            remains=told.remains,
        )
    )
    return draft.decision(Recovered(node_id=node.node_id, did=tuple(told.did), remains=tuple(told.remains)))


def _picture(node: NodeRow) -> dict[str, str]:
    names = ("connection", "hold", "health", "health_reason", "scheduling", "reclaim", "allocation_id")
    return {name: getattr(node, name) for name in names}


def _hold(draft: Draft, node: NodeRow, told: _Told) -> None:
    """A cloned identity is for a person to judge, and this is their word; a rollback is for the root's keys."""
    if node.hold == CLONED:
        end_hold(draft, node)
        told.did.append(Done(what="hold_ended", text=f"the hold ({CLONED}) is ended: the next agent is the node"))
    elif node.hold == ROLLBACK:
        told.remains.append(
            "the node has seen more than this control plane remembers and takes nothing new in this epoch:"
            " publish a keyset with a new epoch, signed by the root; the node comes back by itself"
        )


def _chain(draft: Draft, node: NodeRow, command: RecoverNode, told: _Told) -> None:
    if node.allocation_id:
        _link(draft, node, told)
    elif node.health not in (QUARANTINED, CLEANING):
        return
    elif node.quarantined_by == quarantine.PERSON:
        told.remains.append(f"a person quarantined it ({node.health_reason}): 'hostler nodes clear' when mended")
    elif node.connection != "connected":
        told.remains.append("it is locked by a failed check, and not here to be probed")
    else:
        _probe(draft, node, command.actor, command.correlation_id, told)


def _probe(draft: Draft, node: NodeRow, actor: Actor, correlation_id: str, told: _Told) -> None:
    try:
        operation_id = node_probe.start(draft, node, actor, correlation_id, audited=False)
    except HostlerError as err:
        told.remains.append(f"the node could not be probed: {err.message}")
        return
    text = "the node is probed against its last baseline; if nothing is left on it, it is cleared"
    told.did.append(Done(what="node_probed", text=text, operation_id=operation_id, project_id=node.project_id))


def _link(draft: Draft, node: NodeRow, told: _Told) -> None:
    """The link that stuck, once more: only of this node, and only once its operation has ended."""
    allocation = allocation_of(draft, node.allocation_id)
    lease = chain.lease_of(draft, allocation.allocation_id, node.node_id)
    if lease.state not in LEASE_STUCK:
        return
    if lease.state == L_HELD and quarantine.is_open(draft):
        told.remains.append("the breaker holds it: look at the check, then 'hostler nodes breaker --close REASON'")
        return
    link = chain.link_of(draft, lease)
    if link.operation_id and operation_of(draft, link.operation_id).status not in FINAL:
        told.remains.append(f"operation {link.operation_id} of link {link.link} has not ended on the node yet")
        return
    if allocation.state == FAILED:
        allocation = move(draft, allocation, "retry", error_code="", error_message="")
    chain.again(draft, allocation, lease)
    draft.moved[allocation.allocation_id] = None
    now = chain.link_of(draft, chain.lease_of(draft, allocation.allocation_id, node.node_id))
    text = f"link {now.link} of allocation {allocation.allocation_id} is tried again"
    told.did.append(
        Done(what="link_retried", text=text, operation_id=now.operation_id, project_id=allocation.project_id)
    )


def _work(draft: Draft, node: NodeRow, command: RecoverNode, told: _Told) -> None:
    """What waited goes, and what was taken is asked about."""
    if node.connection != "connected":
        told.remains.append("the node is not connected: what waits for it goes when it says hello")
        return
    if node.hold:
        return
    before = set(draft.orders)
    unclear = task_probe.unclear(draft, node)
    send_what_waited(draft, node, cursor_of(draft, node.node_id).accepted_sequence)
    draft.wake.add(node.node_id)
    sent = len(set(draft.orders) - before)
    if sent:
        told.did.append(Done(what="work_sent", text=f"{sent} orders that waited are signed and sent"))
    for task in unclear[:MOST_PROBES]:
        try:
            asked = task_probe.ask(draft, node, task, command.actor, command.correlation_id)
        except HostlerError as err:
            told.remains.append(f"task {task.task_id} could not be asked about: {err.message}")
            continue
        text = f"the node is asked what became of task {task.task_id}"
        told.did.append(Done(what="task_probed", text=text, operation_id=asked, project_id=node.project_id))
    if len(unclear) > MOST_PROBES:
        told.remains.append(f"{len(unclear) - MOST_PROBES} more open tasks: call again when these are answered")


def _people(node: NodeRow, told: _Told) -> None:
    """What only hands or other commands mend."""
    if node.health == DEGRADED:
        what = node.drift or (node.storage if node.storage != "ok" else "")
        told.remains.append(f"the node says of itself that it is not well: {what or DEGRADED}")
    if node.scheduling != SCHEDULABLE:
        told.remains.append(f"it is {node.scheduling}: 'hostler nodes uncordon', by the party that asked for it")
