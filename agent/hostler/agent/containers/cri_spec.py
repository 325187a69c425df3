"""What a `ContainerSpec` is in the words of the Container Runtime Interface, and back. Pure."""

from collections.abc import Mapping
from pathlib import Path

from hostler.agent.containers.cri_noted import Noted
from hostler.agent.containers.runtime import State, Status
from hostler.agent.containers.spec import ATTEMPT, PHASE, ContainerSpec, name_of
from hostler.agent.containers.walls import kept_capabilities
from hostler.cri.v1 import api_pb2 as cri

NAME = "hostler.name"  # CRI finds containers by labels only
LOG_BYTES, PIDS = "hostler.log-bytes", "hostler.pids"  # annotations: what is kept up while it runs
NAMESPACE = "hostler"
CPU_PERIOD_US = 100_000
DEFAULT_SHM = 64 << 20  # what containerd gives a sandbox; CRI has no word for another size
_LONGEST_SIGNAL = 64
_KILLED = 128 + 9
REFUSED_BY_RUNC = "OCI runtime"
UNBEGUN = b"write exec fifo"  # whoever was to let the program go was killed at it
# runc was ended, or found no sandbox, or what a killed containerd had left in its way: none is the command's fault
_NOT_ITS_OWN = (
    "signal: killed", "context canceled", "ttrpc: closed", "namespace path: lstat /proc/", "given ID already exists",
)  # fmt: skip
# What containerd says of a start that did not come as far as letting the program go.
_BEFORE = (
    "failed to create containerd task",
    "failed to get container info",
    "failed to get sandbox",
    "sandbox container",
)
UNSEEN = Noted()
UNHEARD_MS = 3_000
_STATES = {
    cri.CONTAINER_CREATED: State.CREATED,
    cri.CONTAINER_RUNNING: State.RUNNING,
    cri.CONTAINER_UNKNOWN: State.UNKNOWN,
}


def sandbox_name(spec: ContainerSpec) -> str:
    """One sandbox for all phases of an attempt."""
    return spec.labels.get(ATTEMPT) or spec.name


def is_own_sandbox(each: cri.PodSandbox) -> bool:
    """Whether an agent made it. Its labels do not say so: a pod of Kubernetes has those that its owner has written."""
    name, attempt = each.metadata.name, each.labels.get(ATTEMPT, "")
    return each.metadata.namespace == NAMESPACE and bool(name) and each.metadata.uid == name and attempt in ("", name)


def is_own_container(each: cri.Container, sandboxes: Mapping[str, cri.PodSandbox]) -> bool:
    """Whether an agent made it: in a sandbox of an attempt, with the name of one of its phases (J5).

    Args:
        sandboxes: all of ours, by id.
    """
    sandbox, name, attempt = sandboxes.get(each.pod_sandbox_id), each.metadata.name, each.labels.get(ATTEMPT, "")
    if sandbox is None or each.labels.get(NAME) != name:
        return False
    return sandbox.labels.get(ATTEMPT, "") == attempt and name == name_of(attempt, each.labels.get(PHASE, ""))


def sandbox_config(spec: ContainerSpec, log_dir: Path) -> cri.PodSandboxConfig:
    name = sandbox_name(spec)
    ports = [] if spec.host_network else sorted(spec.ports.values())
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=name, namespace=NAMESPACE),
        log_directory=str(log_dir / name),
        labels={key: value for key, value in spec.labels.items() if key != PHASE},
        port_mappings=[cri.PortMapping(protocol=cri.TCP, container_port=port, host_port=port) for port in ports],
        linux=cri.LinuxPodSandboxConfig(
            security_context=cri.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(spec), seccomp=_seccomp(spec), privileged=spec.privileged
            )
        ),
    )


def container_config(spec: ContainerSpec, *, unified: bool, shm: str = "") -> cri.ContainerConfig:
    """
    Args:
        unified: the node has control groups of version 2 only, where CRI can say how many processes there may be.
        shm: a directory of the host that stands in for /dev/shm.
    """
    mounts = [cri.Mount(container_path=b.target, host_path=b.source, readonly=b.read_only) for b in spec.binds]
    if shm:
        mounts.append(cri.Mount(container_path="/dev/shm", host_path=shm))  # noqa: S108 - inside the container
    nodes = spec.devices.nodes
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=spec.name),
        image=cri.ImageSpec(image=spec.image),
        command=spec.command,
        working_dir=spec.working_dir,
        envs=[cri.KeyValue(key=key, value=value) for key, value in spec.environment.items()],
        mounts=mounts,
        devices=[cri.Device(container_path=node, host_path=node, permissions="rw") for node in nodes],
        CDI_devices=[cri.CDIDevice(name=name) for name in spec.devices.cdi],
        labels={**spec.labels, NAME: spec.name},
        annotations={LOG_BYTES: str(spec.log_bytes), PIDS: str(spec.limits.pids)},
        log_path=f"{spec.name}.log",
        linux=cri.LinuxContainerConfig(resources=_resources(spec, unified=unified), security_context=_security(spec)),
    )


def _namespaces(spec: ContainerSpec) -> cri.NamespaceOption:
    """Its own processes and its own IPC, whatever network."""
    network = cri.NODE if spec.host_network else cri.POD
    return cri.NamespaceOption(network=network, pid=cri.CONTAINER, ipc=cri.POD)


def _seccomp(spec: ContainerSpec) -> cri.SecurityProfile:
    kind = cri.SecurityProfile.Unconfined if spec.privileged else cri.SecurityProfile.RuntimeDefault
    return cri.SecurityProfile(profile_type=kind)


def _resources(spec: ContainerSpec, *, unified: bool) -> cri.LinuxContainerResources:
    limits = spec.limits
    made = cri.LinuxContainerResources(memory_limit_in_bytes=limits.memory_bytes)
    if limits.cpu_millis:
        made.cpu_period = CPU_PERIOD_US
        made.cpu_quota = max(1000, limits.cpu_millis * CPU_PERIOD_US // 1000)
        made.cpu_shares = max(2, limits.cpu_millis * 1024 // 1000)
    if unified and limits.pids:
        made.unified["pids.max"] = str(limits.pids)
    return made


def _security(spec: ContainerSpec) -> cri.LinuxContainerSecurityContext:
    made = cri.LinuxContainerSecurityContext(
        namespace_options=_namespaces(spec),
        seccomp=_seccomp(spec),
        privileged=spec.privileged,
        readonly_rootfs=spec.read_only_root,
        no_new_privs=spec.no_new_privileges,
    )
    if not spec.privileged:
        made.capabilities.drop_capabilities.append("ALL")
        made.capabilities.add_capabilities.extend(kept_capabilities(spec))
    user, _, group = spec.user.partition(":")
    if user.isdecimal():
        made.run_as_user.value = int(user)
    elif user:
        made.run_as_username = user
    if group.isdecimal():
        made.run_as_group.value = int(group)
    return made


def status_of(said: cri.ContainerStatus, pid: int, address: str, noted: Noted = UNSEEN, now_ms: int = 0) -> Status:
    """CRI tells a signal only as 128 + n, and that the kernel killed something in it for memory only as a reason.

    Args:
        noted: what was seen of it besides; it counts where containerd itself does not know.
    """
    started, finished = said.started_at // 1_000_000, said.finished_at // 1_000_000
    state, code, number = _STATES.get(said.state, State.UNKNOWN), 0, 0
    unheard = is_unheard(said, noted, now_ms)
    if said.state == cri.CONTAINER_EXITED or unheard or (state is State.UNKNOWN and (noted.ended_at_ms or noted.gone)):
        made_up, code = _made_up(said, noted), said.exit_code
        if unheard or (made_up is State.LOST and noted.ended_at_ms):
            made_up, code, finished = None, noted.exit_code, noted.ended_at_ms
        state = made_up or State.EXITED
        if made_up is None and said.reason == "OOMKilled" and code:
            state = State.OOM
        elif made_up is None and 0 < code - 128 <= _LONGEST_SIGNAL:
            state = State.KILLED
        if state in (State.KILLED, State.OOM) and code > 128:
            number = code - 128
    return Status(
        state=state,
        exit_code=code,
        signal=number,
        reason=": ".join(filter(None, (said.reason, said.message)))[:500],
        pid=pid if state is State.RUNNING else 0,
        address=address,
        started_at_ms=started,
        finished_at_ms=max(started, finished) if finished else 0,  # a very short one may end before it began
    )


def is_unheard(said: cri.ContainerStatus | cri.Container, noted: Noted, now_ms: int) -> bool:
    """Whether it has ended, by its shim's word, though CRI does not say so yet.

    CRI hears of it some milliseconds later, and knows then whether a failure was for want of memory. containerd 1.6
    misses an end that comes while it starts.
    """
    ended = said.state == cri.CONTAINER_RUNNING and noted.ended_at_ms > 0
    return ended and (not noted.exit_code or is_past_hearing(noted, now_ms))


def is_past_hearing(noted: Noted, now_ms: int) -> bool:
    """Whether CRI would know by now that it has ended, if it could learn of it."""
    return noted.ended_at_ms > 0 and now_ms - noted.ended_at_ms > UNHEARD_MS


def may_be_unbegun(said: cri.ContainerStatus, noted: Noted) -> bool:
    """Whether a start was cut off, so that this may be the end of runc, which waited in the place of the program."""
    ended = said.state == cri.CONTAINER_EXITED and said.reason == "Error"
    return ended and not said.started_at and noted.cut and not noted.begun


def _made_up(said: cri.ContainerStatus, noted: Noted) -> State | None:
    """Where containerd's death or its caller's came in between, the number it gives is its own; None for a true end.

    A start that runc itself refused is the job's own fault, such as a command that the image does not have.
    """
    if said.reason == "Unknown" or said.state == cri.CONTAINER_UNKNOWN:
        return State.LOST
    if said.reason == "StartError":
        if REFUSED_BY_RUNC in said.message and not any(words in said.message for words in _NOT_ITS_OWN):
            return None
        return State.UNSTARTED if said.message.startswith(_BEFORE) else State.LOST
    if noted.unbegun:
        return State.UNSTARTED
    if not said.started_at and said.exit_code == _KILLED:  # by containerd, which clears away what it had half begun
        return State.UNSTARTED if noted.cut and not noted.begun else State.LOST
    return None


def listed_state(said: cri.Container, noted: Noted, now_ms: int) -> State:
    """Of a listing, which knows no more than that it has ended."""
    if said.state == cri.CONTAINER_EXITED or is_unheard(said, noted, now_ms):
        return State.EXITED
    return _STATES.get(said.state, State.UNKNOWN)
