"""What is kept for the first in line: free amounts that nobody of its band or below is given meanwhile.

Nothing of it is remembered from one pass to the next. Where the least is missing a place is kept, and while it is,
what is missing there only becomes less: so the first in line gets it, if the tasks there ever end.
"""

from collections.abc import Sequence

from hostler.control.kernel.job_nodes import NOTHING, Amounts, Need, fits, minus, plus, unmet
from hostler.control.kernel.job_places import Place
from hostler.control.kernel.job_reasons import Reason, short_of


class Kept:
    def __init__(self) -> None:
        self._held: list[tuple[Place, Amounts, str]] = []

    def keep(self, name: str, need: Need, parts: Sequence[Sequence[Place]], count: int) -> list[str]:
        """Names of the nodes of one part on which places for `count` tasks are kept; none where they never fit."""
        plans = [plan for plan in (_plan(need, part, count) for part in parts) if plan is not None]
        if not plans:
            return []
        _, places = min(plans, key=lambda plan: plan[0])
        for place in places:
            now: Amounts = tuple(min(want, max(0, have)) for want, have in zip(need.amounts, place.free, strict=True))  # type: ignore[assignment]  # as long as they are
            place.change(minus(place.free, now), place.leaving)
            self._held.append((place, now, name))
        return list(dict.fromkeys(place.state.name for place in places))

    def instead_of(self, cause: Reason, need: Need) -> Reason:
        """The cause, or that what is free is kept for another."""
        if cause.code != "no_capacity":
            return cause
        free: dict[str, Amounts] = {}
        for place, held, name in self._held:
            free[place.node_id] = plus(free.get(place.node_id, place.free), held)
            if fits(need.amounts, free[place.node_id]) and not unmet(need.where, place.state.facts):
                said = f"what is free on {place.state.name} is reserved for {name}, which waits longer"
                return Reason("reserved", said)
        return cause


def _plan(need: Need, part: Sequence[Place], count: int) -> tuple[float, list[Place]] | None:
    """Where the least is missing for so many tasks, and how much that is; None where they would not fit empty nodes."""
    promised: dict[str, Amounts] = {}
    places: list[Place] = []
    missing = 0.0
    for _ in range(count):
        best: tuple[float, str, Place] | None = None
        for place in part:
            taken = promised.get(place.node_id, NOTHING)
            if fits(plus(taken, need.amounts), place.state.facts.total):
                short, _index = short_of(need, minus(place.free, taken))
                best = min(best or (2.0, "", place), (short, place.node_id, place), key=lambda each: each[:2])
        if best is None:
            return None
        missing += best[0]
        places.append(best[2])
        promised[best[1]] = plus(promised.get(best[1], NOTHING), need.amounts)
    return missing, places
