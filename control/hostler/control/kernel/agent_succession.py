"""A host that was installed anew comes back as a new node of the same name, and takes up what was wanted of the old.

Its receipts begin a chain of their own, under its own key; the old node keeps what it signed (LC-07, PK-02).
"""

import msgspec

from hostler.control.kernel import agent_versions, quarantine
from hostler.control.kernel.agent_progress import CORDON_OWNER, progress_of, with_progress
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow
from hostler.control.kernel.allocation_rows import CordonRow
from hostler.control.kernel.allocation_states import CLEAN, QUARANTINED, scheduling_of
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, TokenRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace


def begin(draft: Draft, token: TokenRow, node_id: str) -> None:
    """What a new node's agent should be: as its predecessor's, if the token was made to replace one."""
    before = draft.get(NodeAgentRow, token.node_id) if token.node_id else None
    if before is None:
        agent_versions.agent_of(draft, node_id)
        return
    run = draft.get(AgentRunRow, before.run_id) if before.run_id else None
    goes_on = run is not None and not run.finished_at_ms and progress_of(run).token_id == token.token_id
    draft.insert(
        NodeAgentRow(
            node_id=node_id,
            channel=before.channel,
            pinned_version=before.pinned_version,
            desired_version=before.desired_version,
            delivery_mode=before.delivery_mode,
            suite=before.suite,
            last_delivery_attempt_ms=before.last_delivery_attempt_ms,
            last_delivery_result=before.last_delivery_result,
            last_delivery_correlation_id=before.last_delivery_correlation_id,
            run_id=before.run_id if goes_on else "",
        )
    )
    if run is not None and goes_on:
        draft.update(with_progress(run, successor_id=node_id))
        draft.update(replace(before, run_id=""))


def keep_out(draft: Draft, before: NodeRow, node_id: str) -> None:
    """What kept others from the host keeps them from it still: a new identity has cleaned nothing (AL-08, R3).

    A person lifts it. What the run itself wished for ends with the old node.
    """
    node = node_of(draft, node_id)
    cordons = [
        replace(row, node_id=node_id)
        for row in draft.rows_of(CordonRow, draft.view.cordons_of(before.node_id))
        if row.kind and row.owner != CORDON_OWNER
    ]
    for row in cordons:
        draft.insert(row)
    if cordons:
        node = replace(node, scheduling=scheduling_of(cordons))
        draft.update(node)
    if before.health == QUARANTINED:
        quarantine.enter(draft, replace(node, quarantined_by=before.quarantined_by), before.health_reason)
    elif before.reclaim != CLEAN:
        quarantine.enter(draft, node, "it enrolled anew while it was lent, and nobody has seen that it is clean")
