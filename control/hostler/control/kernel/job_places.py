"""Nodes during a pass of the scheduler, and the search for the best of them."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from hostler.control.kernel.job_nodes import NOTHING, Amounts, NodeState, Where, fits, liked, minus, plus, unmet


class Place:
    """A node, and what is free of it as the pass goes on.

    Attributes:
        leaving: held by tasks that were told to end, and not promised to anybody.
        rest: how empty it is: the sum of the free shares.
        version: rises with every change, so that searches notice.
    """

    __slots__ = ("free", "leaving", "node_id", "rest", "state", "version")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.node_id = state.node_id
        self.leaving = state.leaving
        self.version = 0
        self._free(minus(state.facts.total, state.reserved))

    def _free(self, free: Amounts) -> None:
        self.free = free
        total = self.state.facts.total
        self.rest = sum(have / all_ for have, all_ in zip(free, total, strict=True) if all_ > 0)

    def take(self, amounts: Amounts) -> None:
        self.change(minus(self.free, amounts), self.leaving)

    def give(self, amounts: Amounts) -> None:
        self.change(plus(self.free, amounts), self.leaving)

    def change(self, free: Amounts, leaving: Amounts) -> None:
        self._free(free)
        self.leaving = leaving
        self.version += 1


def places_of(states: Iterable[NodeState]) -> list[Place]:
    return [Place(state) for state in sorted(states, key=lambda state: state.node_id)]


_Entry = tuple[float, float, float, str, int, Place]


class Shelf:
    """Places that are alike for some needs, in the order in which they are taken.

    Packing takes what is fullest, spreading what is emptiest; both leave devices to those who ask for them, and both
    put what is preferred first. An entry that a change has made stale is mended when it comes up.
    """

    def __init__(self, places: Iterable[Place], where: Where, *, spread: bool) -> None:
        self._where = where
        self._sign = -1.0 if spread else 1.0
        self._entries = sorted(self._entry(place) for place in places)
        self._most = _most(entry[5] for entry in self._entries)

    def _entry(self, place: Place) -> _Entry:
        soft = liked(self._where, place.state.facts) if self._where.soft else 0
        spare = 0 if self._where.device else place.free[3] + place.free[4]
        return soft, spare, self._sign * place.rest, place.node_id, place.version, place

    def best(
        self, amounts: Amounts, not_on: frozenset[str] = frozenset(), avoid: str = "", others: Mapping[str, int] = {}
    ) -> Place | None:
        """The first that has room; of those that have none of the job's `others` first."""
        if not fits(amounts, self._most):
            return None
        again: Place | None = None
        least: tuple[int, Place] | None = None
        index = 0
        while index < len(self._entries):
            place = self._entries[index][5]
            if self._entries[index][4] != place.version:
                del self._entries[index]
                fresh = self._entry(place)
                insort(self._entries, fresh)
                index = min(index, bisect_left(self._entries, fresh))
                continue
            index += 1
            if not fits(amounts, place.free) or place.node_id in not_on:
                continue
            if place.node_id == avoid:
                again = place
                continue
            count = others.get(place.node_id, 0)
            if not count:
                return place
            if least is None or count < least[0]:
                least = count, place
        if least is not None:
            return least[1]
        if again is None and not not_on:
            self._most = _most(entry[5] for entry in self._entries)
        return again  # better there again than nowhere


class Shelves:
    """By need, each made when it is first asked for."""

    def __init__(self, places: list[Place]) -> None:
        self._places = places
        self._matching: dict[Where, list[Place]] = {}
        self._made: dict[tuple[Where, bool], Shelf] = {}

    def matching(self, where: Where) -> list[Place]:
        found = self._matching.get(where)
        if found is None:
            found = [place for place in self._places if not unmet(where, place.state.facts)]
            self._matching[where] = found
        return found

    def of(self, where: Where, *, spread: bool) -> Shelf:
        shelf = self._made.get((where, spread))
        if shelf is None:
            shelf = self._made[where, spread] = Shelf(self.matching(where), where, spread=spread)
        return shelf


def _most(places: Iterable[Place]) -> Amounts:
    """The most that is free anywhere, of each resource."""
    most = list(NOTHING)
    for place in places:
        for index, have in enumerate(place.free):
            most[index] = max(most[index], have)
    return most[0], most[1], most[2], most[3], most[4]
