"""`decide`: the one door into the kernel. (view, command, now, ids) → Decision, nothing else."""

from collections.abc import Callable
from typing import Any

from hostler.base.errors import HostlerError
from hostler.catalog.manifest import Catalog
from hostler.control.kernel import (
    allocation_commands,
    allocation_flow,
    allocations,
    asking,
    audit,
    cancel,
    catalogs,
    checkpoints,
    commands,
    cordons,
    credentials,
    fold,
    keysets,
    nodes,
    principals,
    put_policy,
    quarantine,
    sessions,
    submit,
    webhook_commands,
    webhooks,
)
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
    commands.ExpireTasks: sessions.expire,
    commands.ControlStarted: sessions.control_started,
    commands.NodeStatus: sessions.status,
    commands.ReleaseNode: nodes.release,
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
    allocation_commands.ProbeNode: allocations.probe,
    allocation_commands.CordonNode: cordons.cordon,
    allocation_commands.CloseBreaker: quarantine.close_breaker,
    webhook_commands.CreateWebhook: webhooks.create,
    webhook_commands.DeleteWebhook: webhooks.delete,
    webhook_commands.EnableWebhook: webhooks.enable,
    webhook_commands.TryWebhook: webhooks.try_out,
    webhook_commands.RecordDelivery: webhooks.record,
}


def decide(
    view: View,
    command: commands.Command,
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
    draft.follow = allocation_flow.follow
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


def _refusal(opened: object) -> Exception:
    if isinstance(opened, HostlerError):
        return opened
    return TypeError("bytes are verified before they are registered")
