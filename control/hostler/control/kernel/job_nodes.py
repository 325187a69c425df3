"""What a node offers and what a task needs of it: parsed once, compared often (JB-06, EF-10)."""

import functools
from typing import Any, NamedTuple

import msgspec

from hostler.catalog.job import Constraint, JobSpec
from hostler.control.kernel.allocation_states import OK, SCHEDULABLE
from hostler.control.kernel.documents import definition_of

# cpu thousandths, bytes of memory, bytes of disk, GPUs, TPUs
Amounts = tuple[int, int, int, int, int]
NAMES = ("cpu_millis", "memory_bytes", "disk_bytes", "gpus", "tpus")
NOTHING: Amounts = (0, 0, 0, 0, 0)
_LARGEST = 2**60
RUNTIMES, CONTAINERS, PROCESS = "workload.runtimes", frozenset({"containerd", "docker"}), "process"
_MODELS = {"gpu": ("gpu.architecture", "gpu.vendor", "gpu.model"), "tpu": ("tpu.type",)}


class Facts(NamedTuple):
    """A node's own words, read. `total` is what it has in all; what it does not say it does not have."""

    values: dict[str, str]  # labels over capabilities
    runtimes: frozenset[str]
    total: Amounts


class Where(msgspec.Struct, frozen=True):
    """What a node has to be, whatever else is on it."""

    runtime: str
    image: bool
    device: str
    model: str
    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]


class Need(msgspec.Struct, frozen=True):
    """What one task of a job asks of a node. Two jobs with the same need fit the same nodes."""

    amounts: Amounts
    where: Where


class NodeState(NamedTuple):
    """A node as a pass finds it.

    Attributes:
        blocked: code of why nothing new is placed on it; "" where it is.
        reserved: held by tasks placed on it.
        leaving: the part of that whose tasks were told to end.
    """

    node_id: str
    name: str
    facts: Facts
    blocked: str = ""
    reserved: Amounts = NOTHING
    leaving: Amounts = NOTHING


def blocked_by(connection: str, hold: str, scheduling: str, health: str) -> str:
    """Code of why nothing new is placed on a node; "" where it is."""
    if connection != "connected" or hold:
        return "node_away"
    if scheduling != SCHEDULABLE:
        return "node_draining"
    return "" if health == OK else "node_unhealthy"


def plus(left: Amounts, right: Amounts) -> Amounts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3], left[4] + right[4]


def minus(left: Amounts, right: Amounts) -> Amounts:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2], left[3] - right[3], left[4] - right[4]


def fits(need: Amounts, free: Amounts) -> bool:
    """What is not asked for is never short, also where a node's own words have shrunk below what is held."""
    return (
        (need[0] <= free[0] or not need[0])
        and (need[1] <= free[1] or not need[1])
        and (need[2] <= free[2] or not need[2])
        and (need[3] <= free[3] or not need[3])
        and (need[4] <= free[4] or not need[4])
    )


@functools.lru_cache(maxsize=16_384)
def facts_of(node_id: str, name: str, labels: str, capabilities: str) -> Facts:
    said: dict[str, str] = msgspec.json.decode(capabilities)
    values = said | msgspec.json.decode(labels, type=dict[str, str]) | {"node.id": node_id, "node.name": name}
    runtimes = frozenset(said.get(RUNTIMES, "").replace(" ", "").split(",")) - {"", "none"}
    total = (
        _number(said.get("cpu.millis")),
        _number(said.get("memory.bytes")),
        _number(said.get("disk.bytes")),
        _number(said.get("gpu.count")),
        # one program at a time has the TPUs of a host
        int(said.get("tpu.type", "none") not in ("", "none")),
    )
    return Facts(values, runtimes, total)


def _number(text: str | None) -> int:
    return min(int(text), _LARGEST) if text and text.isascii() and text.isdigit() and len(text) < 20 else 0


@functools.lru_cache(maxsize=4096)
def need_of(spec_text: str, document: str = "") -> Need:
    """Of a stored spec, and of the definition that it was compiled to."""
    spec = spec_of(spec_text)
    required = definition_of(document).capabilities if document else {}
    asked, device = spec.resources, spec.resources.device
    gpus = device.count if device and device.kind == "gpu" else 0
    amounts = asked.cpu_millis, asked.memory_bytes, asked.disk_bytes, gpus, int(bool(device) and not gpus)
    where = Where(
        runtime=spec.runtime,
        image=bool(spec.image),
        device=device.kind if device else "",
        model=device.model if device else "",
        hard=(
            *(Constraint(key=key, op="in", values=_words(wanted)) for key, wanted in required.items()),
            *(each for each in spec.constraints if not each.prefer),
        ),
        soft=tuple(each for each in spec.constraints if each.prefer),
    )
    return Need(amounts, where)


def _words(wanted: Any) -> tuple[str, ...]:
    """What a definition wants of a capability, as the node says it."""
    if isinstance(wanted, list | tuple):
        return tuple(word for each in wanted for word in _words(each))
    return (str(wanted).lower() if isinstance(wanted, bool) else str(wanted),)


@functools.lru_cache(maxsize=4096)
def spec_of(spec_text: str) -> JobSpec:
    return msgspec.json.decode(spec_text, type=JobSpec)


@functools.lru_cache(maxsize=65_536)
def _unmet(where: Where, values: tuple[tuple[str, str], ...], runtimes: frozenset[str]) -> str:
    have = dict(values)
    if not runtimes:
        return f"{RUNTIMES}: the node runs no jobs"
    if where.runtime and where.runtime not in runtimes:
        return f"{RUNTIMES} has {where.runtime}"
    if not where.runtime and where.image and not runtimes & CONTAINERS:
        return f"{RUNTIMES} has one of {', '.join(sorted(CONTAINERS))}"
    if not where.image and PROCESS not in runtimes:
        return f"{RUNTIMES} has {PROCESS}, as the job has no image"
    if where.model and where.model not in (have.get(key) for key in _MODELS[where.device]):
        return f"{where.device} model {where.model}"
    return next((said(each) for each in where.hard if not met(each, have)), "")


def unmet(where: Where, facts: Facts) -> str:
    """The first thing about the node, whatever else is on it, that keeps the task away; "" for none."""
    if not where.hard and not where.model:
        return _unmet(where, (), facts.runtimes)
    named = {each.key for each in where.hard} | set(_MODELS.get(where.device, ()))
    asked = tuple((key, facts.values[key]) for key in sorted(named) if key in facts.values)
    return _unmet(where, asked, facts.runtimes)


def liked(where: Where, facts: Facts) -> int:
    """How many preferences the node does not meet."""
    return sum(not met(each, facts.values) for each in where.soft)


def met(constraint: Constraint, have: dict[str, str]) -> bool:
    found = have.get(constraint.key)
    if constraint.op == "exists":
        return found is not None
    if constraint.op in ("eq", "in"):
        return found is not None and found in constraint.values
    return found not in constraint.values


def said(constraint: Constraint) -> str:
    words = {"eq": "is", "ne": "is not", "in": "is one of", "not_in": "is none of", "exists": "exists"}
    return f"{constraint.key} {words[constraint.op]} {', '.join(constraint.values)}".strip()
