"""Params, facts and policy → what a runtime is asked to make, whole and exact (RN-09). Pure."""

from dataclasses import dataclass

from hostler.agent.containers import spec
from hostler.agent.containers.device_book import Given, label_of
from hostler.agent.containers.ports import ports_text
from hostler.agent.containers.spec import Bind, ContainerSpec, Devices, Limits
from hostler.agent.containers.workload import TaskFacts
from hostler.agent.steps.container_env import INSIDE, Places, environment_of
from hostler.agent.steps.container_rules import APP, PROCESS, SCRATCH
from hostler.catalog.params.container import ContainerRun

# What a program that starts as root and then becomes another user needs, and no more: no raw sockets, no device
# nodes, no chroot.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
NOBODY = "65534:65534"


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Everything about an attempt that both its phases share; paths are the host's.

    Attributes:
        image: as the runtime knows it.
        bundle: "" for none.
    """

    params: ContainerRun
    facts: TaskFacts
    runtime: str
    envelope_digest: str
    step_id: str
    image: str
    given: tuple[Given, ...]
    mounts: tuple[Bind, ...]
    socket_directory: str
    scratch: str
    bundle: str
    aliases: bool

    @property
    def places(self) -> Places:
        """As the task sees them; the process runtime, too, sees to it that they are there."""
        return Places(INSIDE, SCRATCH, APP if self.bundle else "")

    def environment(self) -> tuple[dict[str, str], tuple[str, ...]]:
        contained = self.runtime != PROCESS
        return environment_of(
            self.params.environment, self.facts, self.places, aliases=self.aliases, contained=contained
        )


def labels_of(decided: Decided, phase: str) -> dict[str, str]:
    """All of them, always: an image may bring labels of its own, and must not say who a container is."""
    facts = decided.facts
    return {
        spec.TASK: facts.task_id,
        spec.ATTEMPT: facts.attempt_uid,
        spec.STEP: decided.step_id,
        spec.OPERATION: facts.job_id,
        spec.JOB: facts.job,
        spec.ORG: facts.org_id,
        spec.PROJECT: facts.project_id,
        spec.NODE: facts.node_id,
        spec.PORTS: ports_text(facts.ports),
        spec.PHASE: phase,
        spec.ENVELOPE: decided.envelope_digest,
        spec.DEVICES: label_of(decided.given),
    }


def spec_of(decided: Decided, phase: str) -> ContainerSpec:
    """The build phase differs in its command and publishes no port."""
    params, main = decided.params, phase == spec.MAIN_PHASE
    restricted, privileged = params.security == "restricted", params.security == "privileged"
    return ContainerSpec(
        name=spec.name_of(decided.facts.attempt_uid, phase),
        image=decided.image,
        command=params.command if main else params.setup,
        environment=decided.environment()[0],
        labels=labels_of(decided, phase),
        limits=limits_of(params),
        devices=_devices(decided),
        binds=_binds(decided),
        ports=dict(decided.facts.ports) if main else {},
        host_network=params.network == "host",
        user=NOBODY if restricted else "",
        working_dir=decided.places.bundle or (SCRATCH if decided.runtime == PROCESS else ""),
        capabilities=() if restricted or decided.runtime == PROCESS else CAPABILITIES,
        no_new_privileges=not privileged,
        read_only_root=restricted,
        privileged=privileged,
    )


def limits_of(params: ContainerRun) -> Limits:
    asked = params.resources
    return Limits(asked.cpu_millis, asked.memory_bytes, asked.shm_bytes, asked.pids)


def _binds(decided: Decided) -> tuple[Bind, ...]:
    own = [Bind(decided.socket_directory, INSIDE), Bind(decided.scratch, SCRATCH, read_only=False)]
    if decided.bundle:
        own.append(Bind(decided.bundle, APP))
    return (*decided.mounts, *own)


def _devices(decided: Decided) -> Devices:
    named = tuple(one.cdi for one in decided.given if one.cdi)
    nodes = dict.fromkeys(path for one in decided.given for path in one.nodes)
    return Devices(named, tuple(nodes))
