"""The closed table of step kinds (SK, OD-14): what both sides know of each."""

from typing import NamedTuple

import msgspec

from hostler.catalog.params.allocation import (
    AccessFence,
    BaselineTake,
    IdentityGrant,
    IdentityRevoke,
    StorageGrant,
    StorageRelease,
    WorkloadStop,
)
from hostler.catalog.params.artifact import PullBlob, PullOci, Verify
from hostler.catalog.params.cluster import Join
from hostler.catalog.params.cluster import Verify as VerifyCluster
from hostler.catalog.params.command import ExecAllowlisted
from hostler.catalog.params.container import ContainerRun, ContainerStop
from hostler.catalog.params.credential import Mint
from hostler.catalog.params.file import Render
from hostler.catalog.params.gpu import ContainerRuntimeCheck, DriverValidate, FabricVerify, RuntimeCheck
from hostler.catalog.params.health import HealthCheck
from hostler.catalog.params.network import FabricVerify as NetworkFabricVerify
from hostler.catalog.params.package import Install
from hostler.catalog.params.python import EnvCreate
from hostler.catalog.params.reclaim import DeviceSanitize, HandoverCertify, ResidueCheck
from hostler.catalog.params.resolver import ConfigApply
from hostler.catalog.params.service import Control
from hostler.catalog.params.task import TaskExec, TaskForward, TaskProbe, TaskProfile
from hostler.catalog.params.upgrade import Activate, Rollback, Stage


class Kind(NamedTuple):
    """`abstract`: the node resolves it to a command profile by its hardware; see `catalog.resolver`."""

    params: type[msgspec.Struct]
    summary: str
    outputs: tuple[str, ...]
    destructive: bool = False
    abstract: bool = False


# The kinds that a resolver configuration may speak of; each verifies, so none may resolve to what is always fine.
ABSTRACT = frozenset({"gpu.driver.validate", "gpu.runtime.check", "gpu.fabric.verify", "gpu.container_runtime.check"})


KINDS: dict[str, Kind] = {
    "artifact.pull_blob": Kind(
        PullBlob,
        "fetch a blob over HTTPS with resume and integrity on the way",
        ("path", "sha256", "size_bytes", "bytes_transferred"),
    ),
    "artifact.pull_oci": Kind(
        PullOci,
        "pull an OCI image or artifact by digest into a directory or the node's image store",
        ("path", "reference", "digest", "media_type", "size_bytes", "bytes_transferred", "image"),
    ),
    "artifact.verify": Kind(Verify, "check a file's digest and signature", ("path", "sha256", "size_bytes")),
    "credential.mint": Kind(Mint, "obtain a short-lived credential for later steps of the task", ("handle",)),
    "file.render": Kind(Render, "write a file from a signed template", ("path", "sha256", "changed")),
    "command.exec_allowlisted": Kind(
        ExecAllowlisted,
        "run a command profile of the signed catalog",
        ("exit_status", "stdout", "stderr"),
    ),
    "resolver.config.apply": Kind(
        ConfigApply,
        "make a resolver configuration of the signed catalog the active one",
        ("config", "version", "digest"),
    ),
    "health.check": Kind(HealthCheck, "run typed checks until they pass or time is up", ("results",)),
    "network.fabric.verify": Kind(
        NetworkFabricVerify, "check links, RDMA ports and what collectives need of a node", ("results",)
    ),
    "container.run": Kind(
        ContainerRun,
        "run one task of a job in a container, to its end",
        ("exit_code", "runtime", "container", "ports", "started_at_ms", "finished_at_ms"),
    ),
    "container.stop": Kind(ContainerStop, "stop and remove what runs for a job or an attempt", ("stopped",)),
    "gpu.driver.validate": Kind(
        DriverValidate,
        "check that the devices' driver is loaded and answers for each of them",
        ("resolved_profile", "devices", "driver"),
        abstract=True,
    ),
    "gpu.runtime.check": Kind(
        RuntimeCheck,
        "check that devices, driver and compute runtime fit together",
        ("resolved_profile", "devices", "driver", "compute_runtime"),
        abstract=True,
    ),
    "gpu.fabric.verify": Kind(
        FabricVerify,
        "run a collective test over the devices",
        ("resolved_profile", "ranks", "sizes", "bus_bandwidth"),
        abstract=True,
    ),
    "gpu.container_runtime.check": Kind(
        ContainerRuntimeCheck,
        "check that containers can be given the devices",
        ("resolved_profile", "devices", "names", "container_runtime"),
        abstract=True,
    ),
    "cluster.join": Kind(
        Join, "join the node to a Kubernetes, Slurm or Ray cluster", ("cluster", "node", "condition"), destructive=True
    ),
    "cluster.verify": Kind(
        VerifyCluster, "wait until the node's cluster calls it ready", ("cluster", "node", "condition")
    ),
    "package.install": Kind(
        Install,
        "install allowlisted OS packages, at pinned versions where given",
        ("packages", "installed", "upgraded", "removed", "repaired"),
        destructive=True,  # what packages bring along runs as root
    ),
    "python.env.create": Kind(
        EnvCreate,
        "build a Python environment from a lock with hashes",
        ("path", "python", "env_digest"),
    ),
    "service.control": Kind(
        Control,
        "bring a systemd unit into a state, and wait for it",
        ("unit", "before", "after"),
    ),
    "baseline.take": Kind(
        BaselineTake, "record what stands on the host before a tenant comes", ("baseline_digest", "items", "coverage")
    ),
    "identity.grant": Kind(IdentityGrant, "make an allocation's users, with their keys", ("users",)),
    "storage.grant": Kind(StorageGrant, "make an allocation's scratch directory", ("path",)),
    "access.fence": Kind(
        AccessFence, "lock an allocation's users out and end their sessions", ("users", "stuck"), destructive=True
    ),
    "workload.stop": Kind(
        WorkloadStop, "stop an allocation's units and processes", ("units", "users"), destructive=True
    ),
    "storage.release": Kind(
        StorageRelease, "unmount and remove an allocation's storage", ("removed",), destructive=True
    ),
    "identity.revoke": Kind(
        IdentityRevoke, "remove an allocation's users and all that lets them in", ("users",), destructive=True
    ),
    "device.sanitize": Kind(
        DeviceSanitize, "erase whole disks and prove it by reading back", ("erased", "method"), destructive=True
    ),
    "residue.check": Kind(
        ResidueCheck,
        "compare the host with the baseline from before the tenant",
        ("baseline_digest", "inventory_digest"),
    ),
    "handover.certify": Kind(
        HandoverCertify, "sign that the node is clean after an allocation", ("certificate", "certificate_digest")
    ),
    "task.exec": Kind(
        TaskExec,
        "run a program inside a running task's container, over a relay",
        ("exit_code", "bytes_in", "bytes_out", "output_sha256"),
    ),
    "task.forward": Kind(
        TaskForward,
        "carry one connection to a port of a running task, over a relay",
        ("bytes_in", "bytes_out", "output_sha256"),
    ),
    "task.profile": Kind(TaskProfile, "watch the processes of a running task for a while", ("profile",)),
    "task.probe": Kind(
        TaskProbe,
        "say what is true of one attempt of a task on this node",
        (
            "state",
            "attempt_number",
            "step_id",
            "exit_status",
            "error_code",
            "receipt_digest",
            "accepted_at_ms",
            "finished_at_ms",
            "container",
            "container_exit",
        ),
    ),
    "agent.upgrade.stage": Kind(
        Stage, "put a signed release of the agent beside the one that runs", ("version", "commit", "slot")
    ),
    "agent.upgrade.activate": Kind(
        Activate,
        "switch the node to a staged version of its agent, on trial",
        ("version", "commit", "slot", "from_version", "checks", "extended"),
    ),
    "agent.upgrade.rollback": Kind(
        Rollback,
        "return the node to an earlier version of its agent, on trial",
        ("version", "commit", "slot", "from_version", "checks", "extended"),
    ),
}
