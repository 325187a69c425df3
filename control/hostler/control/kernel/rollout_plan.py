"""Who goes when: nodes and settings in, waves out (LC-15). Pure; the same nodes give the same waves.

wave 0   the canary: connected, healthy and idle ones first, taken in turn from every boundary, the largest first
wave 1…  one for each value of the boundary, in the order asked for, then by name; those without a value last
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.kernel.agent_commands import RolloutSettings
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.rows import NodeRow

CANARY, NO_VALUE = "canary", ""
BY_POOL, BY_TENANT = "pool", "tenant"
OWNED = "owned"  # of the boundary `pool`: nodes that are not of the pool
APPROVALS = NO_APPROVAL, AFTER_CANARY, EACH_WAVE = "none", "after_canary", "each_wave"
SAFETY = ("idle", "drain", "force")
MAX_BOUNDARY = 63
MAX_ORDER = 1000
# setting → least and most
RANGES: dict[str, tuple[int, int]] = {
    "canary": (1, 1000),
    "max_parallel": (1, 1000),
    "success_percent": (1, 100),
    "max_failures": (1, 10_000),
    "soak_seconds": (0, 7 * 86_400),
    "run_timeout_seconds": (60, 7 * 86_400),
}


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What of a node decides when its turn is. `skip` says why it has none, with `error_code` where there is one."""

    node_id: str
    name: str
    boundary: str
    suite: str = ""
    connected: bool = True
    healthy: bool = True
    idle: bool = True
    skip: str = ""
    error_code: str = ""


class PlannedNode(msgspec.Struct, frozen=True, kw_only=True):
    """`skip` is "" for a node that gets the version."""

    node_id: str
    name: str
    wave: int
    boundary: str
    skip: str = ""
    error_code: str = ""


class PlannedWave(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    boundary: str
    nodes: tuple[str, ...]  # names, in the order of their turn


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    rollout_id: str
    target_version: str
    settings: RolloutSettings
    waves: tuple[PlannedWave, ...]
    skipped: tuple[PlannedNode, ...]
    nodes: tuple[PlannedNode, ...]  # all of them, those that are skipped too


def check(settings: RolloutSettings) -> None:
    """Raises `invalid_request` with a pointer to the setting."""
    for name, (least, most) in RANGES.items():
        if not least <= getattr(settings, name) <= most:
            raise _wrong(name, f"{name} is between {least} and {most}")
    if settings.approval not in APPROVALS:
        raise _wrong("approval", f"approval is one of {', '.join(APPROVALS)}")
    if settings.safety_policy not in SAFETY:
        raise _wrong("safety_policy", f"safety_policy is one of {', '.join(SAFETY)}")
    if len(settings.boundary) > MAX_BOUNDARY:
        raise _wrong("boundary", f"boundary is longer than {MAX_BOUNDARY} characters")
    if settings.order and not settings.boundary:
        raise _wrong("order", "an order of waves needs a boundary that makes them")
    if len(settings.order) > MAX_ORDER:
        raise _wrong("order", f"order names {MAX_ORDER} values at most")
    if len(set(settings.order)) != len(settings.order):
        raise _wrong("order", "order names a value twice")


def _wrong(name: str, message: str) -> HostlerError:
    return error("invalid_request", message, pointer=f"/settings/{name}")


def boundary_of(node: NodeRow, boundary: str) -> str:
    """The node's value; a label of that name wins over what `pool` and `tenant` mean by themselves."""
    if not boundary:
        return NO_VALUE
    labels: dict[str, str] = msgspec.json.decode(node.labels)
    if boundary in labels:
        return labels[boundary]
    if boundary == BY_POOL:
        return BY_POOL if node.pool else OWNED
    return (BY_POOL if node.org_id == POOL else node.org_id) if boundary == BY_TENANT else NO_VALUE


def waves_of(candidates: Iterable[Candidate], settings: RolloutSettings) -> tuple[PlannedNode, ...]:
    """Every candidate once, with its wave, in the order of their turns."""
    known = sorted(candidates, key=_rank)
    going = [each for each in known if not each.skip]
    first = canaries(going, settings.canary)
    taken = {each.node_id for each in first}
    groups: dict[str, list[Candidate]] = defaultdict(list)
    for each in going:
        if each.node_id not in taken:
            groups[each.boundary].append(each)
    planned = [_planned(each, 0, CANARY) for each in first]
    index = {value: number for number, value in enumerate(ordered(groups, settings.order), 1)}
    for value, number in index.items():
        planned += [_planned(each, number, value) for each in groups[value]]
    return (*planned, *(_planned(each, index.get(each.boundary, 0), each.boundary) for each in known if each.skip))


def canaries(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """The best of each boundary and Debian release in turn, so that a few stand for many sorts of nodes."""
    chosen: list[Candidate] = []
    for rank in sorted({_rank(each)[:3] for each in candidates}):
        queues: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
        for each in candidates:
            if _rank(each)[:3] == rank:
                queues[each.boundary, each.suite].append(each)
        turns = sorted(queues.items(), key=lambda item: (-len(item[1]), item[0]))
        depth = max(map(len, queues.values()))
        chosen += [queue[turn] for turn in range(depth) for _, queue in turns if turn < len(queue)]
    return chosen[:count]


def ordered(values: Iterable[str], order: Sequence[str]) -> list[str]:
    """Those of `order` first; nodes without a value last, whose sort nobody knows."""
    place = {value: number for number, value in enumerate(order)}
    return sorted(values, key=lambda value: (value == NO_VALUE, place.get(value, len(place)), value))


def wave_list(planned: Iterable[PlannedNode]) -> tuple[PlannedWave, ...]:
    """The waves that have something to do."""
    waves: dict[int, list[PlannedNode]] = defaultdict(list)
    for node in planned:
        if not node.skip:
            waves[node.wave].append(node)
    return tuple(
        PlannedWave(index=index, boundary=nodes[0].boundary, nodes=tuple(node.name for node in nodes))
        for index, nodes in sorted(waves.items())
    )


def first_approved(settings: RolloutSettings, waves: int) -> int:
    """Up to which wave a rollout goes before anybody is asked: whoever makes it has asked for the canary."""
    return waves - 1 if settings.approval == NO_APPROVAL else 0


def approved_by(settings: RolloutSettings, wave: int, waves: int) -> int:
    """Up to which wave it goes once the present one is approved."""
    return wave if settings.approval == EACH_WAVE else waves - 1


def out_of_reach(ok: int, failed: int, left: int, percent: int) -> bool:
    """Whether a wave cannot come to its share of successes any more, however what is left ends."""
    return (ok + left) * 100 < percent * (ok + failed + left)


def parse_settings(text: str) -> RolloutSettings:
    """As stored in a rollout's row."""
    return msgspec.json.decode(text, type=RolloutSettings)


def _planned(each: Candidate, wave: int, boundary: str) -> PlannedNode:
    return PlannedNode(
        node_id=each.node_id,
        name=each.name,
        wave=wave,
        boundary=boundary,
        skip=each.skip,
        error_code=each.error_code,
    )


def _rank(each: Candidate) -> tuple[bool, bool, bool, str, str]:
    return not each.connected, not each.healthy, not each.idle, each.name, each.node_id
