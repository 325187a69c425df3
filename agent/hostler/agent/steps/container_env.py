"""What a task of a job finds in its environment: the house's names, and over them nobody's (TE-01, TE-02, TE-03). Pure.

No secret ever comes here: what is in an environment is in /proc and in whatever a program prints when it dies.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.agent.containers.workload import TaskFacts

OURS = ("HOSTLER_", "IRIS_")
# What the NVIDIA hook reads, and what most CUDA images set to `all`: devices come from us alone (J4, J5).
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NOTHING_VISIBLE = "void"
INSIDE = "/run/hostler"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ALIASES = {
    "IRIS_JOB_ID": "HOSTLER_JOB_ID",
    "IRIS_TASK_ID": "HOSTLER_TASK_ID",
    "IRIS_WORKER_ID": "HOSTLER_WORKER_ID",
    "IRIS_CONTROLLER_ADDRESS": "HOSTLER_CONTROLLER_ADDRESS",
    "IRIS_VM_ADDRESS": "HOSTLER_VM_ADDRESS",
}


@dataclass(frozen=True)
class Places:
    """Where a task finds what is its own, as it sees it."""

    socket_directory: str
    scratch: str
    bundle: str  # "" for none


def environment_of(
    wanted: Mapping[str, str], facts: TaskFacts, places: Places, *, aliases: bool, contained: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The whole environment, and the names that were wanted and not given.

    Args:
        contained: in a container; a plain process has no image that would set a PATH.
    """
    system = system_names(facts, places, aliases=aliases)
    if contained:
        system[VISIBLE] = NOTHING_VISIBLE
    kept = {name: value for name, value in wanted.items() if not name.startswith(OURS) and name not in system}
    dropped = tuple(sorted(set(wanted) - set(kept)))
    return ({} if contained else {"PATH": PATH}) | kept | system, dropped


def system_names(facts: TaskFacts, places: Places, *, aliases: bool) -> dict[str, str]:
    """What every task gets, whatever it asked for."""
    names = {
        "HOSTLER_JOB_ID": facts.job_id,
        "HOSTLER_JOB": facts.job,
        "HOSTLER_PARENT_JOB": facts.parent,
        "HOSTLER_NAMESPACE": facts.namespace,
        "HOSTLER_TASK_ID": facts.task_id,
        "HOSTLER_TASK_INDEX": str(facts.task_index),
        "HOSTLER_NUM_TASKS": str(facts.num_tasks),
        "HOSTLER_ATTEMPT": str(facts.attempt_number),
        "HOSTLER_ATTEMPT_UID": facts.attempt_uid,
        "HOSTLER_WORKER_ID": facts.node_id,
        "HOSTLER_VM_ADDRESS": facts.node_address,
        "HOSTLER_CONTROLLER_ADDRESS": f"unix://{places.socket_directory}/task.sock",
        "HOSTLER_SCRATCH": places.scratch,
        **({"HOSTLER_BUNDLE": places.bundle} if places.bundle else {}),
        **{f"HOSTLER_PORT_{name.upper().replace('-', '_')}": str(port) for name, port in facts.ports.items()},
    }
    return names | ({alias: names[name] for alias, name in _ALIASES.items()} if aliases else {})
