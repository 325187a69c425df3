"""Why a task waits: one code, and one sentence that names what is missing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hostler.control.kernel.job_nodes import NAMES, Amounts, Need, NodeState, Where, fits, unmet

# code → what it means; docs and the command line show these
REASONS: dict[str, str] = {
    "no_node_matches": "no node has what the job asks for, whatever runs there",
    "no_capacity": "nodes match, and what is free of each is too little",
    "reserved": "it is the first in line and waits for what gets free, or what is free is kept for who is",
    "gang_waits": "not all tasks of the gang would find a place at once",
    "node_draining": "nodes match, and most of them are cordoned or draining",
    "node_away": "nodes match, and most of them are away or held",
    "node_unhealthy": "nodes match, and most of them are unhealthy or in quarantine",
    "quota": "the policy's max_concurrency is reached",
    "budget": "the job, or one above it, has used up max_task_seconds",
    "preempting": "less important tasks are making room",
    "old_attempt": "an old attempt may still run on the nodes that have room",
    "back_off": "its last node could not run it; it is tried again soon",
    "node_lost": "its node does not answer, and a second copy may not run beside the first",
}


_BLOCKED = {
    "node_draining": "cordoned or draining",
    "node_away": "away or held",
    "node_unhealthy": "unhealthy or in quarantine",
}


class Reason(NamedTuple):
    code: str
    detail: str


class Reasons:
    """Of one pass: what is free stands still."""

    def __init__(self, nodes: Sequence[NodeState], free: Mapping[str, Amounts]) -> None:
        self._nodes = nodes
        self._free = free
        self._known: dict[Need, Reason] = {}
        self._matches: dict[Where, tuple[Reason | None, list[NodeState], list[tuple[int, int, str]]]] = {}

    def of(self, need: Need, not_on: frozenset[str] = frozenset()) -> Reason:
        """Why no node takes a task now."""
        known = self._known.get(need)
        if known is None:
            cause, there, best = self._matching(need.where)
            known = self._known[need] = cause or self._scarcest(need, there, best)
        if not_on and known.code == "no_capacity":
            return Reason("old_attempt", f"an old attempt may still run on {', '.join(sorted(not_on))}")
        return known

    def _matching(self, where: Where) -> tuple[Reason | None, list[NodeState], list[tuple[int, int, str]]]:
        """Why no node is there at all, or those that are, and of each resource the most free, the most ever, where."""
        if where not in self._matches:
            cause, there = _there(where, self._nodes)
            best = []
            for index in range(len(NAMES)) if there else ():
                most = max(there, key=lambda node: (self._free[node.node_id][index], node.node_id))
                ever = max(node.facts.total[index] for node in there)
                best.append((max(self._free[most.node_id][index], 0), ever, most.name))
            self._matches[where] = cause, there, best
        return self._matches[where]

    def _scarcest(self, need: Need, there: Sequence[NodeState], best: Sequence[tuple[int, int, str]]) -> Reason:
        """A resource that nowhere is enough of; else what is missing on the node that is nearest to enough."""
        for name, want, (most, ever, where) in zip(NAMES, need.amounts, best, strict=True):
            if want > most:
                never = f"; no node has more than {ever} in all" if ever < want else ""
                return Reason("no_capacity", f"{name}: {want} asked for, at most {most} free, on {where}{never}")
        nearest = min(there, key=lambda node: (short_of(need, self._free[node.node_id])[0], node.node_id))
        _, index = short_of(need, self._free[nearest.node_id])
        have, want = max(self._free[nearest.node_id][index], 0), need.amounts[index]
        return Reason("no_capacity", f"{NAMES[index]}: {want} asked for, {have} free on {nearest.name}, the nearest")


def _there(where: Where, nodes: Sequence[NodeState]) -> tuple[Reason | None, list[NodeState]]:
    if not nodes:
        return Reason("no_node_matches", "there is no node that the job may run on"), []
    unlike = [(node, unmet(where, node.facts)) for node in nodes]
    matching = [node for node, what in unlike if not what]
    if not matching:
        what, count = Counter(what for _, what in unlike).most_common(1)[0]
        rest = f"; {len(nodes) - count} more lack something else" if count < len(nodes) else ""
        return Reason("no_node_matches", f"{count} of {len(nodes)} nodes do not meet: {what}{rest}"), []
    there = [node for node in matching if not node.blocked]
    if there:
        return None, there
    code, count = Counter(node.blocked for node in matching).most_common(1)[0]
    return Reason(
        code, f"of {len(matching)} nodes that match, {count} {'is' if count == 1 else 'are'} {_BLOCKED[code]}"
    ), []


def short_of(need: Need, free: Amounts) -> tuple[float, int]:
    """How much of the scarcest resource is missing, as a share of what is asked for, and which one it is."""
    missing = [
        ((want - max(have, 0)) / want if want else 0.0, -index)
        for index, (want, have) in enumerate(zip(need.amounts, free, strict=True))
    ]
    worst, index = max(missing)
    return worst, -index


def why_not(need: Need, node: NodeState, free: Amounts) -> str:
    """One node, in words; "" where the task would fit now."""
    what = unmet(need.where, node.facts)
    if what:
        return f"does not meet: {what}"
    if node.blocked:
        return f"it is {_BLOCKED[node.blocked]}"
    if fits(need.amounts, free):
        return ""
    _, index = short_of(need, free)
    return f"{NAMES[index]}: {need.amounts[index]} asked for, {max(free[index], 0)} free"
