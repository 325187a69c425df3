"""What a person says of a job, in YAML, JSON or a child's request: the control plane compiles it to an operation.

A job is an operation of a workload type (requirements API-26, JB): its id is the operation's, its tasks are the
operation's tasks, and each try of a task is an attempt. Names are paths: `/user/job` for a root job, one more part for
each child (JB-01).
"""

import hashlib
import re
from typing import Annotated, Any, Literal

import msgspec

from hostler.catalog.oci import reference_of
from hostler.catalog.params.container import EnvName, Mount, PortName, Resources

Part = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$(?!\n)")]
LabelName = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Argument = Annotated[str, msgspec.Meta(max_length=131_072)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=31_536_000)]

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_TOLD_APART = re.compile(r".*-[0-9a-f]{16}")

PRIORITIES = {"low": 100, "normal": 200, "high": 300, "critical": 400}  # bands: a higher one may preempt a lower


class Constraint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """On a label or capability of a node. `prefer` only sorts the nodes that fit (JB-06).

    Attributes:
        key: a label's name or a capability's key.
        op: `eq`, `ne`, `in`, `not_in` or `exists`.
        values: what it is compared with; none for `exists`.
        prefer: soft: a node that does not fit is taken when no other has room.
    """

    key: LabelName
    op: Literal["eq", "ne", "in", "not_in", "exists"] = "eq"
    values: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=256)], ...], msgspec.Meta(max_length=64)] = ()
    prefer: bool = False


class Gang(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All tasks or none (JB-07). With `topology` all of them on nodes that have the same value of that label."""

    topology: Annotated[str, msgspec.Meta(max_length=128)] = ""


class Retries(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often a task is tried again; what a node or the scheduler did to it is counted apart.

    Attributes:
        failure: after the task itself failed.
        preemption: after it made room, or its node or runtime could not run it.
        on_lost: what follows when a node's container runtime has lost a task, which may have run, wholly or in part:
            `retry`, counted as a preemption, or `fail`, for what must not be done twice.
    """

    failure: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    preemption: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 100
    on_lost: Literal["retry", "fail"] = "retry"


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One job. Fields that `ContainerRun` has too mean the same there.

    Attributes:
        name: one part of the path; the control plane puts `/user` or the parent's path before it.
        pull_credential: the image is private: the node mints an `oci_pull` credential for the task (RN-06).
        placement: `spread` over nodes or `pack` onto few.
        scheduling_timeout_seconds: how long it may wait for a place; 0 for ever.
        existing: what to do when the name is taken by a job that has not ended: `keep` it (JB-03), `error`, or
            `replace` it. One that has ended is replaced, `keep` apart where it succeeded.
        max_task_seconds: budget of the job and all below it: seconds of tasks that have run; 0 for none.
        cluster, backend: pins; both at once are refused (JB-06).
        resources: of each task.
        gang: all tasks at once, or none; null for each as there is room.
        constraints: what a node has to be.
        priority: a job of a higher band may take the place of a lower one.
        preemptible: whether its tasks may be stopped for a higher band, and tried again elsewhere.
        retries: how often a task is tried again.
        mounts: directories of the node.
        allocation: only nodes that this allocation holds.
    """

    name: Part
    image: Annotated[str, msgspec.Meta(max_length=600)] = ""
    command: Annotated[tuple[Argument, ...], msgspec.Meta(min_length=1, max_length=4096)]
    setup: Annotated[tuple[Argument, ...], msgspec.Meta(max_length=4096)] = ()
    environment: dict[EnvName, Argument] = {}
    resources: Resources = Resources()
    ports: Annotated[tuple[PortName, ...], msgspec.Meta(max_length=32)] = ()
    replicas: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    gang: Gang | None = None
    placement: Literal["spread", "pack"] = "pack"
    constraints: Annotated[tuple[Constraint, ...], msgspec.Meta(max_length=64)] = ()
    priority: Literal["low", "normal", "high", "critical"] = "normal"
    preemptible: bool = True
    retries: Retries = Retries()
    timeout_seconds: Seconds = 0
    scheduling_timeout_seconds: Seconds = 0
    existing: Literal["keep", "error", "replace"] = "error"
    network: Literal["isolated", "host"] = "isolated"
    runtime: Literal["", "containerd", "docker", "process"] = ""
    security: Literal["restricted", "default", "privileged"] = "default"
    mounts: Annotated[tuple[Mount, ...], msgspec.Meta(max_length=32)] = ()
    bundle: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")] = ""
    pull_credential: bool = False
    fence: Literal["none", "hard"] = "none"
    fence_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 120
    relocatable: bool = False
    max_task_seconds: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    allocation: Annotated[str, msgspec.Meta(max_length=64)] = ""
    cluster: Annotated[str, msgspec.Meta(max_length=128)] = ""
    backend: Annotated[str, msgspec.Meta(max_length=64)] = ""


_SHARED = (
    "image", "command", "setup", "environment", "resources", "ports", "replicas", "network", "runtime", "security",
    "mounts", "bundle", "timeout_seconds", "fence", "fence_seconds", "relocatable",
)  # fmt: skip


def container_inputs(spec: JobSpec, path: str, parent: str, namespace: str) -> dict[str, Any]:
    """The inputs of `job.container.run@v1` (or its private twin) for a job under its whole name."""
    said: dict[str, Any] = msgspec.to_builtins(spec)
    return {"job": path, "parent": parent, "namespace": namespace} | {name: said[name] for name in _SHARED}


def pull_inputs(image: str) -> dict[str, str]:
    """What `job.container.private@v1` takes besides. Raises `digest_required` for an image that is not pinned."""
    reference = reference_of(image)
    return {
        "pull_registry": f"https://{reference.registry}",
        "pull_repository": reference.repository,
        "pull_digest": reference.digest,
    }


def path_of(user: str, name: str, parent: str = "") -> str:
    """The whole name. `parent` is a whole name or ""."""
    return f"{parent}/{name}" if parent else f"/{user_part(user)}/{name}"


def user_part(user: str) -> str:
    """The first part of a user's paths. No two users share one: whoever has it has the namespace and its keys (TE-16).

    A name that is no path part is made fit, and then told apart by its digest; so is one that looks like that.
    """
    if _PART.fullmatch(user) and not _TOLD_APART.fullmatch(user):
        return user
    fit = re.sub(r"[^A-Za-z0-9._-]", "-", user).strip("._-")[:46]
    return f"{fit or 'user'}-{hashlib.sha256(user.encode()).hexdigest()[:16]}"


def root_of(path: str) -> str:
    """The root job's path: the namespace of all below it (TE-16)."""
    return "/" + "/".join(path.split("/")[1:3])
