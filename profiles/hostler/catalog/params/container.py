"""Parameters of `container.run` and `container.stop`: what one task of a job is, wherever it runs (RN, JB)."""

from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]
EnvName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$(?!\n)")]
PortName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}$(?!\n)")]
AbsolutePath = Annotated[str, msgspec.Meta(pattern="^/", max_length=4096)]
JobName = Annotated[
    str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9][A-Za-z0-9._-]{0,62}){2,16}$(?!\n)", description="/user/job/child")
]


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`kind` is `gpu` or `tpu`; `model` restricts placement, "" for any."""

    kind: Literal["gpu", "tpu"]
    count: Annotated[int, msgspec.Meta(ge=1, le=64)]
    model: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one task is given: the scheduler reserves it, the runtime enforces it. 0 is no limit and no reservation.

    Attributes:
        cpu_millis: thousandths of a core.
        disk_bytes: scratch space; reserved, not enforced.
        shm_bytes: size of /dev/shm; part of the memory.
        pids: processes and threads.
    """

    cpu_millis: Count = 1000
    memory_bytes: Bytes = 1 << 30
    disk_bytes: Bytes = 0
    shm_bytes: Bytes = 64 << 20
    pids: Count = 4096
    device: Device | None = None


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A directory of the node inside the container; `agent.toml` lists which may be mounted, and which for writing."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: bool = True


class ContainerRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Runs one task of a job to its end.

    Attributes:
        job: path of the job; tasks are indexed under it by the envelope's replica index.
        parent: path of the job it is a child of; "" for a root job.
        namespace: where its endpoints are registered: the root job's path (TE-16).
        image: `registry/repository@sha256:…`; "" only where the process runtime runs it.
        command: argv inside the container; never a host command.
        setup: argv of the build phase, in the same sandbox, before the command; empty for none (RN-07).
        environment: what the user wants; names of the house win over it (TE-02).
        ports: names; the node allocates a free host port for each (TE-09).
        network: `isolated` where the runtime has a network of its own, `host` by policy only.
        runtime: which one must run it; "" for the node's own choice.
        security: `restricted` (no root, read-only root, no capabilities), `default`, `privileged` (by `agent.toml`).
        bundle: sha256 of a code bundle, unpacked read-only at /app; "" for none.
        credential: handle of an `oci_pull` credential; "" for a public image. A name and a password go to the runtime.
            A token goes to Docker too; on containerd, whose container interface takes none, the agent fetches the
            image with it, verified and under the limits of `artifact.pull_oci`, and hands it to containerd by `ctr`.
        timeout_seconds: 0 for as long as it takes.
        replicas: how many tasks the job has.
        fence: `hard` stops the task when the control plane was silent for `fence_seconds` (EF-05).
        relocatable: a second copy may run while a lost node's one may still do so (EF-06).
    """

    job: JobName
    parent: str = ""
    namespace: str = ""
    image: Annotated[str, msgspec.Meta(max_length=600)] = ""
    command: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=131_072)], ...], msgspec.Meta(min_length=1)]
    setup: tuple[Annotated[str, msgspec.Meta(max_length=131_072)], ...] = ()
    environment: dict[EnvName, Annotated[str, msgspec.Meta(max_length=131_072)]] = {}
    resources: Resources = Resources()
    ports: Annotated[tuple[PortName, ...], msgspec.Meta(max_length=32)] = ()
    network: Literal["isolated", "host"] = "isolated"
    runtime: Literal["", "containerd", "docker", "process"] = ""
    security: Literal["restricted", "default", "privileged"] = "default"
    mounts: Annotated[tuple[Mount, ...], msgspec.Meta(max_length=32)] = ()
    bundle: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")] = ""
    credential: Annotated[str, msgspec.Meta(max_length=64)] = ""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=0, le=31_536_000)] = 0
    replicas: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    fence: Literal["none", "hard"] = "none"
    fence_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 120
    relocatable: bool = False


class ContainerStop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Stops and removes what runs here for a job or an attempt, found by its labels; nothing there is success."""

    job: str = ""
    attempt_uid: str = ""
    grace_seconds: Annotated[int, msgspec.Meta(ge=0, le=600)] = 10
