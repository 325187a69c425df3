"""Statements for each row struct: columns are its fields, in their order."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from hostler.control.kernel import agent_rows, allocation_rows, audit_rows, credential_rows, job_rows, rows
from hostler.control.kernel.artifacts import ArtifactRow
from hostler.control.kernel.bundle_rows import BundleRow
from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.log_rows import LogRow, LogUsageRow
from hostler.control.kernel.policy_rows import PolicyRow
from hostler.control.kernel.rows import Row
from hostler.control.kernel.trust_rows import KeysetRow
from hostler.control.kernel.webhook_rows import ParkedRow, WebhookCursorRow, WebhookRow

NAMES: dict[type[Row], str] = {
    rows.MetaRow: "meta",
    KeysetRow: "keysets",
    rows.NodeRow: "nodes",
    rows.CursorRow: "node_cursors",
    rows.CertificateRow: "certificates",
    rows.TokenRow: "enrolment_tokens",
    rows.PrincipalRow: "principals",
    rows.CatalogRow: "catalogs",
    rows.DocumentRow: "catalog_documents",
    rows.OperationTypeRow: "operation_definitions",
    rows.DefinitionRow: "operation_definition_versions",
    rows.OperationRow: "operations",
    rows.TaskRow: "tasks",
    rows.AttemptRow: "task_attempts",
    rows.StepRow: "operation_steps",
    job_rows.JobRow: "jobs",
    job_rows.JobTaskRow: "job_tasks",
    job_rows.JobAttemptRow: "job_attempts",
    job_rows.NodeLoadRow: "node_loads",
    job_rows.JobShareRow: "job_shares",
    job_rows.StrayRow: "stray_attempts",
    rows.EnvelopeRow: "envelopes",
    rows.ReceiptRow: "receipts",
    ArtifactRow: "operation_artifacts",
    LogRow: "log_lines",
    rows.EventRow: "events",
    audit_rows.CheckpointRow: "checkpoints",
    audit_rows.CheckpointHeadRow: "checkpoint_heads",
    audit_rows.CountersignatureRow: "countersignatures",
    credential_rows.RunnerKeyRow: "runner_keys",
    credential_rows.MintRow: "credential_mints",
    PolicyRow: "operation_policy_overrides",
    allocation_rows.AllocationRow: "allocations",
    allocation_rows.LeaseRow: "allocation_nodes",
    allocation_rows.LinkRow: "allocation_links",
    allocation_rows.CordonRow: "worker_policies",
    WebhookRow: "webhooks",
    WebhookCursorRow: "webhook_cursors",
    BundleRow: "bundles",
    EndpointRow: "endpoints",
    LogUsageRow: "log_usage",
    ParkedRow: "webhook_parked",
    agent_rows.ReleaseRow: "agent_releases",
    agent_rows.ChannelRow: "agent_channels",
    agent_rows.NodeAgentRow: "node_agents",
    agent_rows.AgentRunRow: "agent_lifecycle_runs",
    agent_rows.RolloutRow: "agent_rollouts",
    agent_rows.RolloutNodeRow: "agent_rollout_nodes",
}


class Statements(msgspec.Struct, frozen=True):
    """Prepared once per type. `values` and `changes` turn a row into bound parameters."""

    columns: str
    insert: str
    update: str
    select: str
    values: Callable[[Row], tuple[Any, ...]]
    changes: Callable[[Row], tuple[Any, ...]]


def _make(type_: type[Row], table: str) -> Statements:
    fields = type_.__struct_fields__
    moving = [name for name in fields if name not in type_.KEY and name not in type_.FIXED] or [fields[-1]]
    marks = ", ".join("?" * len(fields))
    where = " AND ".join(f"{name} = ?" for name in type_.KEY)
    columns = ", ".join(fields)
    # The only variable parts are our own table and column names.
    return Statements(
        columns=columns,
        insert=f"INSERT INTO {table} ({columns}) VALUES ({marks})",  # noqa: S608
        update=f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in moving)} WHERE {where}",  # noqa: S608
        select=f"SELECT {columns} FROM {table} WHERE {where}",  # noqa: S608
        values=msgspec.structs.astuple,
        changes=attrgetter(*moving, *type_.KEY),
    )


STATEMENTS: dict[type[Row], Statements] = {type_: _make(type_, name) for type_, name in NAMES.items()}
