"""What a `ContainerSpec` is to the Docker Engine API, and what an inspection says. Pure."""

import datetime
from typing import Any

import msgspec

from hostler.agent.containers.runtime import Found, State, Status
from hostler.agent.containers.spec import ATTEMPT, NODE, PHASE, ContainerSpec, name_of
from hostler.agent.containers.walls import kept_capabilities

_LONGEST_SIGNAL = 64
_STATES = {
    "created": State.CREATED,
    "running": State.RUNNING,
    "paused": State.RUNNING,
    "restarting": State.RUNNING,
    "exited": State.EXITED,
    "dead": State.EXITED,  # its removal has failed, and it has ended all the same
}


class _State(msgspec.Struct, frozen=True, rename="pascal"):
    status: str = ""
    oom_killed: bool = msgspec.field(name="OOMKilled", default=False)
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    started_at: str = ""
    finished_at: str = ""


class _Network(msgspec.Struct, frozen=True, rename="pascal"):
    ip_address: str = msgspec.field(name="IPAddress", default="")


class _Networks(msgspec.Struct, frozen=True, rename="pascal"):
    networks: dict[str, _Network] = {}


class Inspected(msgspec.Struct, frozen=True, rename="pascal"):
    id: str
    state: _State
    network_settings: _Networks = _Networks()
    size_rw: int = 0


def body(spec: ContainerSpec) -> dict[str, Any]:
    """Of `POST /containers/create`."""
    ports = {} if spec.host_network else {f"{port}/tcp": [{"HostPort": str(port)}] for port in spec.ports.values()}
    return {
        "Image": spec.image,
        "Entrypoint": [spec.command[0]],  # the image's own is never run before it
        "Cmd": list(spec.command[1:]),
        "Env": [f"{key}={value}" for key, value in spec.environment.items()],
        "Labels": spec.labels,
        "User": spec.user,
        "WorkingDir": spec.working_dir,
        "ExposedPorts": {port: {} for port in ports},
        "HostConfig": _host(spec) | {"PortBindings": ports},
    }


def _host(spec: ContainerSpec) -> dict[str, Any]:
    limits, devices = spec.limits, spec.devices
    mounts = [
        {"Type": "bind", "Source": bind.source, "Target": bind.target, "ReadOnly": bind.read_only}
        for bind in spec.binds
    ]
    host = {
        "NetworkMode": "host" if spec.host_network else "bridge",
        "PidMode": "",
        "IpcMode": "private",
        "Privileged": spec.privileged,
        "CapDrop": [] if spec.privileged else ["ALL"],
        "CapAdd": [] if spec.privileged else kept_capabilities(spec),
        "SecurityOpt": ["no-new-privileges"] if spec.no_new_privileges else [],
        "ReadonlyRootfs": spec.read_only_root,
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # both together: the same number is no swap
        "NanoCpus": limits.cpu_millis * 1_000_000,
        "PidsLimit": limits.pids or None,
        "Mounts": mounts,
        "Devices": [{"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rw"} for node in devices.nodes],
        "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": list(devices.cdi)}] if devices.cdi else [],
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": str(max(1, spec.log_bytes // 2)), "max-file": "2"},
        },
    }
    return host | ({"ShmSize": limits.shm_bytes} if limits.shm_bytes else {})


def is_own(found: Found, node_id: str) -> bool:
    """Whether this node's agent made it. Its labels alone do not say so: a container inherits those of its image, which
    anybody may have written, and what is taken for ours may be stopped and removed."""
    attempt, phase = found.labels.get(ATTEMPT, ""), found.labels.get(PHASE, "")
    named = bool(attempt) and found.name == name_of(attempt, phase)
    return named and found.labels.get(NODE, "") == node_id


def status_of(said: Inspected) -> Status:
    """As CRI, it tells a signal only as 128 + n."""
    now = said.state
    state, number = _STATES.get(now.status, State.UNKNOWN), 0
    if state is State.EXITED:
        if 0 < now.exit_code - 128 <= _LONGEST_SIGNAL:
            state, number = State.KILLED, now.exit_code - 128
        if now.oom_killed and now.exit_code:
            state = State.OOM
    ended = _STATES.get(now.status) is State.EXITED
    started, finished = milliseconds(now.started_at), milliseconds(now.finished_at)
    addresses = [network.ip_address for network in said.network_settings.networks.values() if network.ip_address]
    return Status(
        state=state,
        exit_code=now.exit_code if ended else 0,
        signal=number,
        reason="OOMKilled" if state is State.OOM else now.error[:500],
        pid=now.pid if state is State.RUNNING else 0,
        address=addresses[0] if addresses else "",
        started_at_ms=started,
        finished_at_ms=max(started, finished) if ended else 0,
    )


def state_of(said: str) -> State:
    return _STATES.get(said, State.UNKNOWN)


def milliseconds(stamp: str) -> int:
    """0 for the year 1, which stands for never."""
    if not stamp or stamp.startswith("0001-"):
        return 0
    whole, _, rest = stamp.rstrip("Z").partition(".")
    seconds = datetime.datetime.fromisoformat(f"{whole}+00:00").timestamp()
    return int(seconds) * 1000 + int(rest.ljust(3, "0")[:3] or "0")
