"""What a runtime is asked to make, and the labels by which it is found again (RN-09, TE-20)."""

from dataclasses import dataclass, field

TASK, ATTEMPT, STEP = "hostler.task", "hostler.attempt", "hostler.step"
OPERATION, JOB, ORG, PROJECT = "hostler.operation", "hostler.job", "hostler.org", "hostler.project"
NODE, PORTS, PHASE = "hostler.node", "hostler.ports", "hostler.phase"
ENVELOPE = "hostler.envelope"  # digest of the signed task that it was made by
DEVICES = "hostler.devices"  # which of the node's own devices it was given
SETUP_PHASE, MAIN_PHASE = "setup", "main"


def name_of(attempt_uid: str, phase: str) -> str:
    """Of an attempt and a phase, so that a second create finds the first."""
    return f"hostler-{attempt_uid}" if phase == MAIN_PHASE else f"hostler-{attempt_uid}-{phase}"


@dataclass(frozen=True)
class Bind:
    """A directory, file or socket of the host inside the container."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Devices:
    """`cdi` are qualified names (`vendor/class=name`); `nodes` are device nodes for runtimes that know no CDI."""

    cdi: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """0 is no limit. Bytes, thousandths of a core, processes."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    shm_bytes: int = 0
    pids: int = 0


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """One container, decided in every detail; a runtime adds nothing of its own.

    Attributes:
        name: unique on the node; of an attempt and a phase, so that a second create finds the first.
        image: as the runtime's store knows it, by digest; "" for the process runtime.
        command: argv.
        labels: those above; adoption reads nothing else.
        ports: name → host port, the same number inside.
        host_network: else a network of its own where the runtime has one.
        user: "" for the image's own.
        capabilities: what is kept of the default set; all others are dropped.
        log_bytes: how much output the runtime keeps on disk.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: dict[str, str]
    labels: dict[str, str]
    limits: Limits = Limits()
    devices: Devices = Devices()
    binds: tuple[Bind, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    host_network: bool = False
    user: str = ""
    working_dir: str = ""
    capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = True
    read_only_root: bool = False
    privileged: bool = False
    log_bytes: int = 64 << 20
