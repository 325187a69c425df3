"""Every type of event in the log, and what it says (EV-01..11). `docs/events.md` is made from this table.

A refused mutation is an event as well: its action with `_refused` behind it, such as `operation.submit_refused`.
"""

REFUSED = "_refused"

# type → what it says
EVENT_TYPES: dict[str, str] = {
    # -- operations (seed 004 §12) --------------------------------------------------------------
    "operation.requested": "an operation was accepted; once for each",
    "operation.progress": "a step began or ended, with its place, name, state and start",
    "operation.completed": "every task succeeded; the operation's last event of this attempt",
    "operation.failed": "at least one task failed; with `error_code`, the failing step and task",
    "operation.canceled": "cancelled, and every node has confirmed it",
    "operation.cancel_requested": "somebody asked for the end; running tasks end when their nodes say so",
    "operation.retried": "a new attempt of what did not succeed",
    # -- tasks ----------------------------------------------------------------------------------
    "task.finished": "a node's share of an operation ended, with its state",
    "task.late_result": "a result of an attempt that had been given up; kept, without effect",
    "task.signed_again": "the window of its envelope passed before the node took it",
    "task.probed": "a node said what is true of a task, as a status probe asked",
    "task.waiting": "the task cannot be sent although its node is there, and why",
    # -- jobs -----------------------------------------------------------------------------------
    "job.submitted": "a job was accepted, as the operation of the same id",
    "job.task_placed": "a task of a job got a node",
    "job.task_preempted": "a task was told to make room for a more important one",
    "job.task_retried": "an attempt of a task ended and the next waits for a node, with what it is counted as",
    "job.finished": "a job is over, after its operation's last event",
    "job.pruned": "a job that had been over for long enough went; its operation and what it left stay",
    # -- credentials ----------------------------------------------------------------------------
    "credential.minted": "a credential was handed to a step, never what it is",
    "credential.mint_failed": "the issuer did not issue, or the step had ended meanwhile",
    # -- nodes ----------------------------------------------------------------------------------
    "node.token_created": "a one-use enrolment token was made",
    "node.enrolled": "a host has become a node",
    "node.enrolment_token_reused": "a token was used a second time: somebody else may have it",
    "node.connected": "the agent opened a session",
    "node.lost": "the session ended",
    "node.status_changed": "what is wrong with the node, or no longer",
    "node.capabilities_changed": "what the node can do has changed",
    "node.certificate_issued": "a new certificate for the node's key",
    "node.identity_cloned": "two hosts speak with one identity; neither is served",
    "node.journal_lost": "the node's memory is gone; what it was doing is unknown",
    "node.sequence_ahead": "the node has seen more of us than we remember: were we rolled back?",
    "node.receipt_gap": "a receipt is missing in the node's chain",
    "node.refused": "the node refused a task, with the gate that did",
    "node.report_dropped": "a report about a task that is not the node's",
    "node.revoked": "the node's identity counts no more",
    "node.recovered": "a person asked for recovery: what was done, and what remains",
    "node.baseline_taken": "a node of the pool has a first baseline, and is verified as it stands",
    "node.released": "a person ended the hold of a node",
    "node.leased": "a node of the pool went to an allocation",
    "node.reclaimed": "a node was proved clean and is free again",
    "node.cordoned": "no allocation chooses the node from now on",
    "node.drained": "nothing new of a tenant starts on the node from now on",
    "node.uncordoned": "one party's wish to keep the node back was lifted",
    # -- lending --------------------------------------------------------------------------------
    "allocation.requested": "somebody asked for nodes",
    "allocation.provisioning": "nodes were chosen, and are being prepared",
    "allocation.active": "every node is ready for the tenant",
    "allocation.releasing": "the release began: nothing new of the tenant starts",
    "allocation.released": "every node was proved clean, or is gone",
    "allocation.failed": "it cannot be had, and why",
    "allocation.retried": "the link that failed is tried again, with the operation that it stands for",
    "allocation.link": "a link of a node's chain began or ended",
    "allocation.access_revoked": "a link failed, so the tenant's access is taken outside the chain",
    "allocation.node_abandoned": "a node was revoked in the middle of its chain",
    "quarantine.entered": "nobody gets the node until it is cleared, and why",
    "quarantine.held": "the node would be in quarantine, but the breaker is open",
    "quarantine.cleared": "the node may be lent again",
    "quarantine.breaker_opened": "a check fails on too much of the pool to be believed",
    "quarantine.breaker_closed": "a person has looked at the check",
    # -- what is signed, and by whom ------------------------------------------------------------
    "catalog.registered": "a signed catalog came into force",
    "definition.state_changed": "active, deprecated or retired",
    "definition.changed": "the words about a definition changed",
    "keyset.published": "a keyset of the root came into force",
    "keyset.dispatch_key_changed": "tasks are signed by another key from now on",
    "checkpoint.countersigned": "a witness has countersigned a checkpoint",
    "control.recovered": "a new epoch after a restore",
    # -- people and policy ----------------------------------------------------------------------
    "principal.created": "a token was made for a person or program",
    "principal.revoked": "a token counts no more",
    "policy.changed": "a scope's policy overlay was written, with what was before and after",
    # -- code bundles of jobs -------------------------------------------------------------------
    "bundle.stored": "a project keeps a code bundle from now on, with its `sha256` and size",
    "bundle.deleted": "somebody removed a code bundle",
    "bundle.expired": "a code bundle that nobody used for long was removed",
    # -- endpoints ------------------------------------------------------------------------------
    "endpoint.registered": "a task can be reached under a name, or under another address than before; not each renewal",
    "endpoint.expired": "a lease ran out, or the attempt that held it ended",
    "endpoint.removed": "a task took a name of its own away",
    # -- webhooks -------------------------------------------------------------------------------
    "webhook.created": "a receiver is told of events from now on; the first event that it is told",
    "webhook.deleted": "a receiver is told of nothing any more",
    "webhook.enabled": "a receiver is tried again at once",
    "webhook.disabled": "the receiver answered 410: it asked not to be called any more",
    "webhook.test": "somebody tries out whether a receiver is reached",
    "webhook.resend": "somebody asked that what was parked be sent again",
    "webhook.resend_stopped": "the receiver did not take it this time either; what is left stays parked",
    "webhook.parked": "an event that a receiver did not take was given up, with `event_id` and why",
}
