"""`decide`: the one door into the kernel. (view, command, now, ids) → Decision, nothing else."""

from collections.abc import Callable
from typing import Any

from hostler.base.errors import HostlerError
from hostler.catalog.manifest import Catalog
from hostler.control.kernel import (
    agent_advance,
    agent_commands,
    agent_releases,
    agent_reports,
    agent_runs,
    agent_versions,
    allocation_commands,
    allocation_flow,
    allocations,
    asking,
    audit,
    bundle_commands,
    cancel,
    catalogs,
    checkpoints,
    code_bundles,
    commands,
    cordons,
    credentials,
    endpoint_commands,
    endpoints,
    fold,
    job_commands,
    job_flow,
    job_prune,
    jobs,
    keysets,
    launches,
    log_commands,
    node_commands,
    node_probe,
    node_recover,
    nodes,
    overdue,
    principals,
    put_policy,
    quarantine,
    rollout_flow,
    rollouts,
    sessions,
    submit,
    task_logs,
    webhook_commands,
    webhooks,
    workload_commands,
)
from hostler.control.kernel.all_commands import Command
from hostler.control.kernel.model import Decision, Draft, Ids, Settings, View
from hostler.pki.keyset import Keyset

Handler = Callable[[Draft, Any], Decision]

HANDLERS: dict[type, Handler] = {
    commands.SubmitOperation: submit.submit,
    asking.WhatToAsk: asking.what_to_ask,
    commands.CancelOperation: cancel.cancel,
    commands.RetryOperation: cancel.retry,
    commands.SetDefinitionState: catalogs.set_state,
    commands.DescribeDefinition: catalogs.describe,
    commands.PutPolicy: put_policy.put,
    commands.CreateEnrolmentToken: nodes.create_token,
    commands.EnrollNode: nodes.enroll,
    commands.RecordCertificate: nodes.record_certificate,
    commands.RevokeNode: nodes.revoke,
    commands.NodeHello: sessions.hello,
    commands.NodeGone: sessions.gone,
    commands.TasksAccepted: sessions.accepted,
    commands.FoldReports: fold.fold,
    commands.ExpireTasks: overdue.expire,
    commands.ControlStarted: sessions.control_started,
    commands.NodeStatus: sessions.status,
    commands.ReleaseNode: nodes.release,
    node_commands.RecoverNode: node_recover.recover,
    commands.RecoverEpoch: keysets.recover,
    commands.CreatePrincipal: principals.create,
    commands.RevokePrincipal: principals.revoke,
    commands.RecordRefusal: audit.record,
    commands.MakeCheckpoint: checkpoints.make,
    commands.AuthorizeMint: credentials.authorize,
    commands.RecordMint: credentials.record,
    commands.RecordCountersignature: checkpoints.record_countersignature,
    allocation_commands.CreateAllocation: allocations.create,
    allocation_commands.ReleaseAllocation: allocations.release,
    allocation_commands.ForceReleaseAllocation: allocations.force_release,
    allocation_commands.RetryAllocation: allocations.retry,
    allocation_commands.QuarantineNode: quarantine.quarantine,
    allocation_commands.ClearNode: quarantine.clear,
    allocation_commands.ProbeNode: node_probe.probe,
    allocation_commands.CordonNode: cordons.cordon,
    allocation_commands.CloseBreaker: quarantine.close_breaker,
    job_commands.SubmitJob: jobs.submit,
    job_commands.SubmitChildJob: jobs.submit_child,
    job_commands.CancelJob: jobs.cancel,
    job_commands.CancelChildJob: jobs.cancel_child,
    job_commands.PruneJob: job_prune.prune,
    webhook_commands.CreateWebhook: webhooks.create,
    webhook_commands.DeleteWebhook: webhooks.delete,
    webhook_commands.EnableWebhook: webhooks.enable,
    webhook_commands.TryWebhook: webhooks.try_out,
    webhook_commands.RecordDelivery: webhooks.record,
    bundle_commands.StoreBundle: code_bundles.store,
    bundle_commands.DeleteBundle: code_bundles.delete,
    bundle_commands.UseBundle: code_bundles.use,
    bundle_commands.ExpireBundles: code_bundles.expire,
    endpoint_commands.RegisterEndpoint: endpoints.register,
    endpoint_commands.UnregisterEndpoint: endpoints.unregister,
    endpoint_commands.SweepEndpoints: endpoints.sweep,
    log_commands.PruneLogs: task_logs.prune,
    agent_commands.PublishReleases: agent_releases.publish,
    agent_commands.StorePackage: agent_releases.store,
    agent_commands.SetChannel: agent_versions.set_channel,
    agent_commands.SetNodeAgent: agent_versions.set_node,
    agent_commands.RecordAgentReport: agent_reports.record,
    agent_commands.StartAgentRun: agent_runs.begin,
    agent_commands.CancelAgentRun: agent_runs.cancel,
    agent_commands.AdvanceAgents: agent_advance.advance,
    agent_commands.CreateRollout: rollouts.create,
    agent_commands.MoveRollout: rollouts.move,
    webhook_commands.ResendWebhook: webhooks.resend,
    webhook_commands.RecordResend: webhooks.record_resend,
    workload_commands.ProbeWorkload: launches.probe,
    workload_commands.RecoverWorkload: launches.recover,
}


def decide(
    view: View,
    command: Command,
    now_ms: int,
    ids: Ids,
    settings: Settings,
    opened: Catalog | Keyset | HostlerError | None = None,
) -> Decision:
    """What the command changes. A refusal is a decision too: nothing but its line in the audit.

    Args:
        opened: for `RegisterCatalog` and `PublishKeyset`, what the engine made of the bytes: a verified catalog or
            keyset, or the refusal.
    """
    draft = Draft(view, settings, ids, now_ms)
    draft.follow = _follow
    draft.take_again = job_flow.take_again
    try:
        if isinstance(command, commands.RegisterCatalog):
            if not isinstance(opened, Catalog):
                raise _refusal(opened)
            return catalogs.register(draft, command, opened)
        if isinstance(command, commands.PublishKeyset):
            if not isinstance(opened, Keyset):
                raise _refusal(opened)
            return keysets.publish(draft, command, opened)
        return HANDLERS[type(command)](draft, command)
    except HostlerError as refusal:
        line = audit.refused(command, refusal, now_ms)
        return Decision(refusal=refusal, events=[line] if line else [])


def _follow(draft: Draft) -> None:
    """What ended may free a node for a job, a job's end a node for an allocation, and both a node for a new agent."""
    allocation_flow.follow(draft)
    while job_flow.follow(draft) or agent_runs.follow(draft) or rollout_flow.follow(draft):
        allocation_flow.follow(draft)


def _refusal(opened: object) -> Exception:
    if isinstance(opened, HostlerError):
        return opened
    return TypeError("bytes are verified before they are registered")
