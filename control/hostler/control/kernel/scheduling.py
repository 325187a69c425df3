"""Which waiting task goes to which node, who makes room, and why the rest waits. Plain data in, plain data out.

    bands, highest first ─▶ whoever has the smallest dominant share ─▶ their oldest job ─▶ its next task, or whole gang
        fits on a node ─▶ placed
        else less important tasks could make room ─▶ they are told to end, and the task waits for their place
        else ─▶ the job waits, and says for what

Capacity only shrinks within a pass, so what did not fit once is not tried again, and who comes later in the order
never takes what somebody before them could have had (no inversion). The same input gives the same answer.

Who was overtaken for too long comes before its turn, and where it finds no place one is kept for it (`job_reserve`).
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from hostler.control.kernel.job_nodes import NOTHING, Amounts, Need, NodeState, plus
from hostler.control.kernel.job_places import Place, Shelf, Shelves, places_of
from hostler.control.kernel.job_reasons import Reason, Reasons
from hostler.control.kernel.job_reserve import Kept
from hostler.control.kernel.job_room import Placed, Rooms

_MAKING_ROOM = Reason("preempting", "less important tasks are making room")


class Waiting(NamedTuple):
    """A task without a node. `not_on`: nodes where an old attempt of it may still run."""

    task_id: str
    not_on: frozenset[str] = frozenset()
    avoid: str = ""


class Wanting(NamedTuple):
    """A job with waiting tasks.

    Attributes:
        slots: how many of its tasks may be in flight besides those that are.
        blocked: why none of it is placed now.
        aged: it was overtaken for so long that what gets free is kept for it.
        others: tasks of it per node, for `spread`.
    """

    job_id: str
    owner: str
    priority: int
    created_ms: int
    need: Need
    tasks: Sequence[Waiting]
    spread: bool = False
    gang: bool = False
    topology: str = ""
    slots: int = 1 << 30
    blocked: Reason | None = None
    aged: bool = False
    others: Mapping[str, int] = {}
    name: str = ""


class Schedule(NamedTuple):
    """Attributes:
    placements: (task, node), in order.
    preempt: tasks that are to make room.
    reasons: for every task that was given and not placed.
    """

    placements: list[tuple[str, str]]
    preempt: list[str]
    reasons: dict[str, Reason]


def schedule(
    jobs: Iterable[Wanting],
    nodes: Iterable[NodeState],
    placed: Iterable[Placed] = (),
    shares: Mapping[str, Amounts] | None = None,
) -> Schedule:
    """One pass.

    Args:
        placed: tasks that might have to make room.
        shares: what each owner's tasks hold already.
    """
    made = _Pass(tuple(nodes), tuple(placed), dict(shares or {}))
    ordered = sorted(jobs, key=lambda job: (-job.priority, job.created_ms, job.job_id))
    for _, band in groupby(ordered, key=lambda job: job.priority):
        made.band(band)
    made.explain()
    return Schedule(made.placements, made.rooms.victims, made.reasons)


class _Turn:
    """A job in its owner's queue, and how far it is."""

    def __init__(self, job: Wanting) -> None:
        self.job = job
        self.left = list(job.tasks)
        self.slots = job.slots
        self.others = dict(job.others)


class _Pass:
    def __init__(self, nodes: tuple[NodeState, ...], placed: tuple[Placed, ...], shares: dict[str, Amounts]) -> None:
        self._places = places_of(nodes)
        self._open = [place for place in self._places if not place.state.blocked]
        self._shelves = Shelves(self._open)
        self._shares = shares
        self._total = _sum(place.state.facts.total for place in self._places)
        self._unplaced: list[tuple[Need, str, frozenset[str]]] = []
        self._waiting_gangs: list[tuple[Need, str, str]] = []
        self.rooms = Rooms(self._open, placed)
        self._kept = Kept()
        self.placements: list[tuple[str, str]] = []
        self.reasons: dict[str, Reason] = {}

    def band(self, jobs: Iterable[Wanting]) -> None:
        queues: dict[str, list[_Turn]] = defaultdict(list)
        for job in jobs:
            queues[job.owner].append(_Turn(job))
        turns = [(self._share(owner), owner) for owner in queues]
        heapq.heapify(turns)
        self._head(turn for queue in queues.values() for turn in queue)
        for queue in queues.values():
            queue.reverse()  # the oldest is the last, where it is taken from
        while turns:
            _, owner = heapq.heappop(turns)
            queue = queues[owner]
            if not queue[-1].left or not self._one(queue[-1]):
                queue.pop()
            if queue:
                heapq.heappush(turns, (self._share(owner), owner))

    def _head(self, turns: Iterable[_Turn]) -> None:
        """The first of those that were overtaken for too long has its next task, or gang, placed or kept a place."""
        aged = [turn for turn in turns if turn.job.aged and turn.job.blocked is None and turn.left]
        for turn in sorted(aged, key=lambda turn: (turn.job.created_ms, turn.job.job_id)):
            job, wanted = turn.job, len(turn.left) if turn.job.gang else 1
            if turn.slots < wanted or turn.left[0].not_on:
                continue
            if self._goes_first(turn) or self._makes_room(turn):
                return
            kept = self._kept.keep(job.name, job.need, self._parts(job), wanted)
            if kept:
                said = f"it is the first in line: what gets free on {', '.join(kept)} is kept for it"
                self._wait(turn, Reason("reserved", said))
                return

    def _goes_first(self, turn: _Turn) -> bool:
        job = turn.job
        if job.gang:
            fitting = any(len(self._fit_all(turn, part)) == len(turn.left) for part in self._parts(job))
            return fitting and not self._gang(turn)
        place = self._find(turn, turn.left[0])
        if place is not None:
            self._put(turn, turn.left[0], place)
        return place is not None

    def _makes_room(self, turn: _Turn) -> bool:
        need, priority = turn.job.need, turn.job.priority
        if turn.job.gang:
            tasks = [task.not_on for task in turn.left]
            if any(self.rooms.make_all(need.amounts, priority, tasks, part) for part in self._parts(turn.job)):
                return not self._wait(turn, _MAKING_ROOM)
            return False
        if not self.rooms.make(need.amounts, priority, frozenset(), self._shelves.matching(need.where)):
            return False
        turn.slots -= 1
        self.reasons[turn.left.pop(0).task_id] = _MAKING_ROOM
        return True

    def _share(self, owner: str) -> float:
        held = self._shares.get(owner)
        if held is None:
            return 0.0
        return max((mine / all_ for mine, all_ in zip(held, self._total, strict=True) if all_ > 0), default=0.0)

    def _one(self, turn: _Turn) -> bool:
        """Its next task, or the whole of a gang. False when nothing is left to be done for the job."""
        job = turn.job
        wanted = turn.left if job.gang else turn.left[:1]
        if job.blocked is not None:
            return self._wait(turn, job.blocked)
        if turn.slots < len(wanted):
            return self._wait(turn, Reason("quota", "the policy's max_concurrency is reached"))
        if job.gang:
            return self._gang(turn)
        place = self._find(turn, wanted[0])
        if place is None:
            return self._blocked(turn)
        self._put(turn, wanted[0], place)
        return bool(turn.left)

    def _put(self, turn: _Turn, task: Waiting, place: Place) -> None:
        place.take(turn.job.need.amounts)
        self.placements.append((task.task_id, place.state.node_id))
        turn.left.remove(task)
        turn.slots -= 1
        turn.others[place.node_id] = turn.others.get(place.node_id, 0) + 1
        owner = turn.job.owner
        self._shares[owner] = plus(self._shares.get(owner, NOTHING), turn.job.need.amounts)

    def _find(self, turn: _Turn, task: Waiting) -> Place | None:
        job = turn.job
        shelf = self._shelves.of(job.need.where, spread=job.spread)
        return shelf.best(job.need.amounts, task.not_on, task.avoid, turn.others if job.spread else {})

    def _blocked(self, turn: _Turn) -> bool:
        """Nothing is free for its next task: room is made for as many as may be. False when none was made."""
        need, priority = turn.job.need, turn.job.priority
        part = self._shelves.matching(need.where)
        task = turn.left.pop(0)
        if self.rooms.make(need.amounts, priority, task.not_on, part):
            turn.slots -= 1
            self.reasons[task.task_id] = _MAKING_ROOM
        elif task.not_on:  # another task of it may have a place
            self._unplaced.append((need, task.task_id, task.not_on))
        else:
            self._unplaced += [(need, each.task_id, each.not_on) for each in (task, *turn.left)]
            turn.left.clear()
        return bool(turn.left)

    def _wait(self, turn: _Turn, reason: Reason) -> bool:
        for task in turn.left:
            self.reasons[task.task_id] = reason
        turn.left.clear()
        return False

    def explain(self) -> None:
        """Why the rest waits, as things stand at the end of the pass."""
        reasons = Reasons(
            [place.state for place in self._places], {place.node_id: place.free for place in self._places}
        )
        for need, task_id, not_on in self._unplaced:
            self.reasons[task_id] = self._kept.instead_of(reasons.of(need, not_on), need)
        for need, task_id, said in self._waiting_gangs:
            cause = reasons.of(need)
            self.reasons[task_id] = Reason("gang_waits", said) if cause.code == "no_capacity" else cause

    # -- gangs ------------------------------------------------------------------------------------

    def _gang(self, turn: _Turn) -> bool:
        """All of it, in one part of the topology, or nothing (JB-07)."""
        job, most = turn.job, 0
        parts = self._parts(job)
        for part in parts:
            found = self._fit_all(turn, part)
            if len(found) == len(turn.left):
                for task, place in zip(list(turn.left), found, strict=True):
                    self._put(turn, task, place)
                return False
            most = max(most, len(found))
        for part in parts:
            if self.rooms.make_all(job.need.amounts, job.priority, [task.not_on for task in turn.left], part):
                return self._wait(turn, _MAKING_ROOM)
        if job.topology and not parts and self._shelves.matching(job.need.where):
            return self._wait(turn, Reason("no_node_matches", f"no node that matches has the label {job.topology}"))
        where = f" on nodes of one {job.topology}" if job.topology else ""
        said = f"{most} of {len(turn.left)} would fit{where}"
        waits = Reason("gang_waits", said)
        if most:
            return self._wait(turn, waits)
        self._waiting_gangs += [(job.need, task.task_id, said) for task in turn.left]
        turn.left.clear()
        return False

    def _fit_all(self, turn: _Turn, part: list[Place]) -> list[Place]:
        """Places for as many as fit, tried out and given back."""
        job, others = turn.job, dict(turn.others)
        shelf = Shelf(part, job.need.where, spread=job.spread)
        found: list[Place] = []
        for task in turn.left:
            place = shelf.best(job.need.amounts, task.not_on, task.avoid, others if job.spread else {})
            if place is None:
                break
            place.take(job.need.amounts)
            others[place.node_id] = others.get(place.node_id, 0) + 1
            found.append(place)
        for place in found:
            place.give(job.need.amounts)
        return found

    def _parts(self, job: Wanting) -> list[list[Place]]:
        """Nodes that match, all together or by the value of the label."""
        matching = self._shelves.matching(job.need.where)
        if not job.topology:
            return [matching]
        parts: dict[str, list[Place]] = defaultdict(list)
        for place in matching:
            value = place.state.facts.values.get(job.topology)
            if value is not None:
                parts[value].append(place)
        return [parts[value] for value in sorted(parts)]


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total = NOTHING
    for each in amounts:
        total = plus(total, each)
    return total
