"""The audit line of a mutation that was refused (SE-02, I5)."""

from hostler.base.errors import HostlerError, error
from hostler.control.kernel import (
    agent_commands,
    allocation_commands,
    bundle_commands,
    commands,
    job_commands,
    node_commands,
    webhook_commands,
)
from hostler.control.kernel.all_commands import Command
from hostler.control.kernel.commands import Actor, RecordRefusal
from hostler.control.kernel.events import refused_event
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import EventRow

# command → (action, field that names the resource, collection)
_ACTIONS: dict[type, tuple[str, str, str]] = {
    commands.SubmitOperation: ("operation.submit", "operation_type", "definitions"),
    commands.CancelOperation: ("operation.cancel", "operation_id", "operations"),
    commands.RetryOperation: ("operation.retry", "operation_id", "operations"),
    commands.RegisterCatalog: ("catalog.register", "", "catalogs"),
    commands.SetDefinitionState: ("definition.set_state", "ref", "definitions"),
    commands.DescribeDefinition: ("definition.patch", "ref", "definitions"),
    commands.PutPolicy: ("policy.put", "operation_type", "operation-policies"),
    commands.CreateEnrolmentToken: ("node.token.create", "node_name", "nodes"),
    commands.EnrollNode: ("node.enroll", "token_id", "enrolment-tokens"),
    commands.RevokeNode: ("node.revoke", "node_id", "nodes"),
    commands.ReleaseNode: ("node.release", "node_id", "nodes"),
    node_commands.RecoverNode: ("node.recover", "node_id", "nodes"),
    commands.PublishKeyset: ("keyset.publish", "", "keysets"),
    commands.RecoverEpoch: ("control.recover", "control_epoch", "epochs"),
    commands.CreatePrincipal: ("principal.create", "name", "principals"),
    commands.RevokePrincipal: ("principal.revoke", "name", "principals"),
    commands.AuthorizeMint: ("credential.mint", "task_id", "tasks"),
    commands.RecordMint: ("credential.mint", "task_id", "tasks"),
    allocation_commands.CreateAllocation: ("allocation.create", "external_id", "allocations"),
    allocation_commands.ReleaseAllocation: ("allocation.release", "allocation_id", "allocations"),
    allocation_commands.ForceReleaseAllocation: ("allocation.force_release", "allocation_id", "allocations"),
    allocation_commands.RetryAllocation: ("allocation.retry", "allocation_id", "allocations"),
    allocation_commands.QuarantineNode: ("node.quarantine", "node_id", "nodes"),
    allocation_commands.ClearNode: ("node.clear", "node_id", "nodes"),
    allocation_commands.ProbeNode: ("node.probe", "node_id", "nodes"),
    allocation_commands.CordonNode: ("node.cordon", "node_id", "nodes"),
    allocation_commands.CloseBreaker: ("quarantine.close_breaker", "", "quarantine"),
    commands.RecordCountersignature: ("checkpoint.countersign", "index", "checkpoints"),
    job_commands.SubmitJob: ("job.submit", "", "jobs"),
    job_commands.SubmitChildJob: ("job.submit", "task_id", "tasks"),
    job_commands.CancelJob: ("job.cancel", "job_id", "jobs"),
    job_commands.CancelChildJob: ("job.cancel", "task_id", "tasks"),
    webhook_commands.CreateWebhook: ("webhook.create", "", "webhooks"),
    webhook_commands.DeleteWebhook: ("webhook.delete", "webhook_id", "webhooks"),
    webhook_commands.EnableWebhook: ("webhook.enable", "webhook_id", "webhooks"),
    webhook_commands.ResendWebhook: ("webhook.resend", "webhook_id", "webhooks"),
    webhook_commands.TryWebhook: ("webhook.test", "webhook_id", "webhooks"),
    agent_commands.CreateRollout: ("rollout.create", "", "rollouts"),
    agent_commands.MoveRollout: ("rollout.move", "rollout_id", "rollouts"),
    bundle_commands.StoreBundle: ("bundle.store", "sha256", "bundles"),
    bundle_commands.DeleteBundle: ("bundle.delete", "sha256", "bundles"),
    bundle_commands.UseBundle: ("bundle.fetch", "task_id", "tasks"),
}


def refused(command: Command, refusal: HostlerError, now_ms: int) -> EventRow | None:
    """One line for whoever asked; None for what the machinery itself asks."""
    known = _ACTIONS.get(type(command))
    if known is None:
        return None
    action, field, collection = known
    if isinstance(command, agent_commands.MoveRollout):
        action = f"rollout.{command.action}"
    actor = getattr(command, "actor", None) or Actor(kind="node", name=getattr(command, "peer", ""))
    name = getattr(command, field) if field else ""
    type_ = f"{action}_refused"
    if refusal.code == "enrolment_token_used":
        type_ = "node.enrolment_token_reused"
    ids = dict(refusal.ids)
    if correlation_id := getattr(command, "correlation_id", ""):
        ids["correlation_id"] = correlation_id
    return refused_event(
        type_,
        f"{collection}/{name}" if name else collection,
        now_ms,
        refusal,
        actor=actor,
        action=action,
        org_id=getattr(command, "org_id", "") or "",
        project_id=getattr(command, "project_id", "") or "",
        **ids,
    )


def record(draft: Draft, command: RecordRefusal) -> Decision:
    """What an edge refused: who asked is known, so it is written down like any other refusal."""
    line = refused_event(
        f"{command.action}_refused",
        command.resource_name,
        draft.now_ms,
        error(command.error_code, command.message),
        actor=command.actor,
        action=command.action,
        org_id=command.actor.org_id,
        project_id=command.actor.project_id,
        correlation_id=command.correlation_id,
    )
    draft.events.append(line)
    return draft.decision()
