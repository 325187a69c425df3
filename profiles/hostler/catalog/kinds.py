"""The closed table of step kinds (SK, OD-14): what both sides know of each."""

from typing import NamedTuple

import msgspec

from hostler.catalog.params.artifact import PullBlob, Verify
from hostler.catalog.params.cluster import Join
from hostler.catalog.params.cluster import Verify as VerifyCluster
from hostler.catalog.params.command import ExecAllowlisted
from hostler.catalog.params.credential import Mint
from hostler.catalog.params.file import Render
from hostler.catalog.params.health import HealthCheck
from hostler.catalog.params.package import Install
from hostler.catalog.params.python import EnvCreate
from hostler.catalog.params.service import Control


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
    "credential.mint": Kind(Mint, "obtain a short-lived credential for later steps of the task", ("handle",)),
    "file.render": Kind(Render, "write a file from a signed template", ("path", "sha256", "changed")),
    "command.exec_allowlisted": Kind(
        ExecAllowlisted,
        "run a command profile of the signed catalog",
        ("exit_status", "stdout", "stderr"),
    ),
    "health.check": Kind(HealthCheck, "run typed checks until they pass or time is up", ("results",)),
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
}
