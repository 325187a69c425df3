"""`[containers]` of agent.toml: which runtime, and what root of this node lets containers have (J5, RN-05)."""

from typing import Annotated, Literal

import msgspec

LOG_DIR = "/var/log/hostler/containers"
PortNumber = Annotated[int, msgspec.Meta(ge=1024, le=65_535)]


class ContainerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Closed unless said otherwise: a signed job gets nothing of the host that is not named here.

    Attributes:
        runtime: `auto` takes containerd, else Docker, where its socket is; `process` needs `allow_process`; `none`
            runs no containers.
        state_dir: scratch and task sockets of running attempts; "" for `containers` below the agent's own.
        log_dir: where runtimes keep their output; "" for /var/log/hostler/containers, which the daemon writes to.
        allow_process: jobs without an image may run as plain processes of this node: for local mode and tests.
        allow_mounts, allow_writable_mounts: directories of this node that containers may mount, whole path
            components; a writable one must stand in both.
        allow_images: prefixes of `registry/repository`, whole components; `None` leaves it to policy and definition.
        port_range: first and last host port for named ports.
        node_address: under which other nodes reach this one; "" for the address of the default route (TE-23).
        max_containers: how many tasks run in containers at once; they take no slot of `parallel_tasks`.
        env_aliases: `IRIS_*` names beside the `HOSTLER_*` ones (OD-05).
        orphan_grace_seconds: how long the control plane must have been heard before containers of attempts that
            nobody knows are stopped.
    """

    runtime: Literal["auto", "containerd", "docker", "process", "none"] = "auto"
    containerd_socket: str = "/run/containerd/containerd.sock"
    docker_socket: str = "/run/docker.sock"
    state_dir: str = ""
    log_dir: str = ""
    allow_process: bool = False
    allow_mounts: tuple[str, ...] = ()
    allow_writable_mounts: tuple[str, ...] = ()
    allow_privileged: bool = False
    allow_host_network: bool = False
    allow_images: tuple[str, ...] | None = None
    port_range: tuple[PortNumber, PortNumber] = (20_000, 29_999)
    node_address: str = ""
    max_containers: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    env_aliases: bool = True
    orphan_grace_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 120.0
