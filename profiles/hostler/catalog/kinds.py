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
from hostler.catalog.params.artifact import PullBlob, Verify
from hostler.catalog.params.command import ExecAllowlisted
from hostler.catalog.params.file import Render
from hostler.catalog.params.health import HealthCheck
from hostler.catalog.params.reclaim import DeviceSanitize, HandoverCertify, ResidueCheck


class Kind(NamedTuple):
    params: type[msgspec.Struct]
    summary: str
    outputs: tuple[str, ...]
    destructive: bool = False


KINDS: dict[str, Kind] = {
    "artifact.pull_blob": Kind(
        PullBlob,
        "fetch a blob over HTTPS with resume and integrity on the way",
        ("path", "sha256", "size_bytes", "bytes_transferred"),
    ),
    "artifact.verify": Kind(Verify, "check a file's digest and signature", ("path", "sha256", "size_bytes")),
    "file.render": Kind(Render, "write a file from a signed template", ("path", "sha256", "changed")),
    "command.exec_allowlisted": Kind(
        ExecAllowlisted,
        "run a command profile of the signed catalog",
        ("exit_status", "stdout", "stderr"),
    ),
    "health.check": Kind(HealthCheck, "run typed checks until they pass or time is up", ("results",)),
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
}
