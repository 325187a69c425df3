"""Every command there is, as one type: what the engine takes and a replay records."""

from hostler.control.kernel import commands
from hostler.control.kernel.agent_commands import AgentCommand
from hostler.control.kernel.allocation_commands import AllocationCommand
from hostler.control.kernel.bundle_commands import BundleCommand
from hostler.control.kernel.endpoint_commands import EndpointCommand
from hostler.control.kernel.job_commands import JobCommand
from hostler.control.kernel.log_commands import PruneLogs
from hostler.control.kernel.node_commands import NodeCommand
from hostler.control.kernel.webhook_commands import WebhookCommand
from hostler.control.kernel.workload_commands import WorkloadCommand

Command = (
    commands.SubmitOperation
    | commands.CancelOperation
    | commands.RetryOperation
    | commands.RegisterCatalog
    | commands.SetDefinitionState
    | commands.DescribeDefinition
    | commands.PutPolicy
    | commands.CreateEnrolmentToken
    | commands.EnrollNode
    | commands.RecordCertificate
    | commands.RevokeNode
    | commands.NodeHello
    | commands.NodeGone
    | commands.TasksAccepted
    | commands.FoldReports
    | commands.ExpireTasks
    | commands.ControlStarted
    | commands.NodeStatus
    | commands.ReleaseNode
    | commands.PublishKeyset
    | commands.RecoverEpoch
    | commands.CreatePrincipal
    | commands.RevokePrincipal
    | commands.RecordRefusal
    | commands.MakeCheckpoint
    | commands.RecordCountersignature
    | commands.AuthorizeMint
    | commands.RecordMint
    | AllocationCommand
    | JobCommand
    | NodeCommand
    | WebhookCommand
    | BundleCommand
    | EndpointCommand
    | PruneLogs
    | AgentCommand
    | WorkloadCommand
)
