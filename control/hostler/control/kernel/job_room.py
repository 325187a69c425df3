"""Making room: which less important tasks end, so that a more important one finds a place. As few as will do."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hostler.control.kernel.job_nodes import NOTHING, Amounts, fits, minus, plus
from hostler.control.kernel.job_places import Place


class Placed(NamedTuple):
    """A task on a node that may be told to end. Tasks of one `gang` (its job's id) end together."""

    task_id: str
    node_id: str
    priority: int
    amounts: Amounts
    started_ms: int = 0
    gang: str = ""


class _Unit(NamedTuple):
    """What ends together: one task, or a gang."""

    priority: int
    tasks: tuple[Placed, ...]

    @property
    def order(self) -> tuple[int, int, int, str]:
        """The least important first, then the fewest, then the youngest: it loses the least work."""
        return self.priority, len(self.tasks), -max(t.started_ms for t in self.tasks), self.tasks[0].task_id


# how important the most important victim is, how many there are
_Cost = tuple[int, int]


class Rooms:
    """Attributes:
    victims: tasks that are to end.
    """

    def __init__(self, places: Iterable[Place], placed: Iterable[Placed]) -> None:
        self._places = {place.node_id: place for place in places}
        self._units: dict[str, list[_Unit]] = defaultdict(list)
        gangs: dict[str, list[Placed]] = defaultdict(list)
        self._lowest = 1 << 30
        for task in placed:
            self._lowest = min(self._lowest, task.priority)
            if task.gang:
                gangs[task.gang].append(task)
            else:
                self._units[task.node_id].append(_Unit(task.priority, (task,)))
        for members in gangs.values():
            unit = _Unit(members[0].priority, tuple(sorted(members, key=lambda task: task.task_id)))
            for node_id in {task.node_id for task in members}:
                self._units[node_id].append(unit)
        for units in self._units.values():
            units.sort(key=lambda unit: unit.order)
        self._chosen: set[str] = set()
        self._bounds: dict[tuple[str, int], tuple[int, Amounts]] = {}
        self._leaving = {place.node_id for place in self._places.values() if place.leaving != NOTHING}
        self.victims: list[str] = []

    def make(self, amounts: Amounts, priority: int, not_on: frozenset[str], part: Sequence[Place]) -> bool:
        """Promises a place of `part` to a task, and says who ends for it. False when nobody can or has to."""
        for place in part if self._leaving else ():
            open_ = place.node_id in self._leaving and place.node_id not in not_on
            if open_ and fits(amounts, plus(place.free, place.leaving)):
                self._promise(place, amounts, ())
                return True
        if priority <= self._lowest:
            return False
        best = self._cheapest(amounts, priority, not_on, part)
        if best is None:
            return False
        self._promise(best[0], amounts, best[1])
        return True

    def _cheapest(
        self, amounts: Amounts, priority: int, not_on: frozenset[str], part: Sequence[Place]
    ) -> tuple[Place, list[_Unit]] | None:
        """Where the least important, and the fewest, would have to end."""
        best: tuple[_Cost, Place, list[_Unit]] | None = None
        for place in part:
            if place.node_id in not_on or not fits(amounts, self._bound(place, priority)):
                continue
            units = self._fewest(place, amounts, priority)
            if units is None:
                continue
            cost = max(unit.priority for unit in units), sum(len(unit.tasks) for unit in units)
            if best is None or cost < best[0]:  # of equals the first: places are in order
                best = cost, place, units
            if cost == (self._lowest, 1):  # it cannot be less
                break
        return best[1:] if best else None

    def make_all(
        self, amounts: Amounts, priority: int, not_on: Sequence[frozenset[str]], part: Sequence[Place]
    ) -> bool:
        """For a whole gang within one part of the nodes, or for none of it."""
        before = [(place, place.free, place.leaving) for place in self._places.values()]
        chosen, leaving, victims = set(self._chosen), set(self._leaving), len(self.victims)
        if all(self._fit_or_make(amounts, priority, each, part) for each in not_on):
            return True
        for place, free, held in before:
            if (place.free, place.leaving) != (free, held):
                place.change(free, held)
        self._chosen, self._leaving = chosen, leaving
        del self.victims[victims:]
        return False

    def _fit_or_make(self, amounts: Amounts, priority: int, not_on: frozenset[str], part: Sequence[Place]) -> bool:
        place = next((each for each in part if each.node_id not in not_on and fits(amounts, each.free)), None)
        if place is not None:
            place.take(amounts)
            return True
        return self.make(amounts, priority, not_on, part)

    def _bound(self, place: Place, priority: int) -> Amounts:
        """What there would be if everybody less important went."""
        known = self._bounds.get((place.node_id, priority))
        if known is None or known[0] != place.version:
            most = plus(place.free, place.leaving)
            for unit in self._units.get(place.node_id, ()):
                if unit.priority < priority and unit.tasks[0].task_id not in self._chosen:
                    most = plus(most, _on(unit, place))
            known = self._bounds[place.node_id, priority] = place.version, most
        return known[1]

    def _fewest(self, place: Place, amounts: Amounts, priority: int) -> list[_Unit] | None:
        """Who would have to end there."""
        free = plus(place.free, place.leaving)
        taken: list[_Unit] = []
        for unit in self._units.get(place.node_id, ()):
            if unit.priority < priority and unit.tasks[0].task_id not in self._chosen:
                taken.append(unit)
                free = plus(free, _on(unit, place))
                if fits(amounts, free):
                    break
        else:
            return None
        for unit in list(taken[:-1]):  # the first ones may not be needed beside the last
            without = minus(free, _on(unit, place))
            if fits(amounts, without):
                taken.remove(unit)
                free = without
        return taken

    def _promise(self, place: Place, amounts: Amounts, units: Iterable[_Unit]) -> None:
        """What is free there is kept for the task, besides what is leaving."""
        for unit in units:
            for task in unit.tasks:
                self._chosen.add(task.task_id)
                self.victims.append(task.task_id)
                on = self._places.get(task.node_id)
                if on is not None:
                    on.change(on.free, plus(on.leaving, task.amounts))
                    self._leaving.add(on.node_id)
        now: Amounts = tuple(min(want, max(0, have)) for want, have in zip(amounts, place.free, strict=True))  # type: ignore[assignment]  # as long as they are
        place.change(minus(place.free, now), minus(place.leaving, minus(amounts, now)))
        self._leaving.add(place.node_id)


def _on(unit: _Unit, place: Place) -> Amounts:
    if len(unit.tasks) == 1:
        return unit.tasks[0].amounts
    total = NOTHING
    for task in unit.tasks:
        if task.node_id == place.node_id:
            total = plus(total, task.amounts)
    return total
