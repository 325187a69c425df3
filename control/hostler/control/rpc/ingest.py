"""How fast log lines are taken: a node's share and everybody's, so that one that floods holds up itself (OB-07, N1).

Nothing is dropped here: a batch above the rate waits, its node's stream with it, and the node's own quota behind that.
"""

import asyncio
from collections.abc import Sequence

from hostler.base.clock import Clock, Pace
from hostler.control.kernel.log_rows import LINE_COST
from hostler.wire.report import LogLine, Report

_FREE = 65_536  # a node that says no more in a second never waits for what others say
_LONGEST_S = 10.0  # a stream that stands still for longer looks like one that is dead


class Ingest:
    """One a control plane; `Share` is one session's."""

    def __init__(self, clock: Clock, node_rate: int, total_rate: int) -> None:
        self._clock = clock
        self._node_rate = node_rate
        self._total = Pace(total_rate, clock)

    def share(self) -> "Share":
        return Share(Pace(self._node_rate, self._clock), self._total)


class Share:
    def __init__(self, own: Pace, total: Pace) -> None:
        self._own = own
        self._total = total

    async def admit(self, reports: Sequence[Report]) -> None:
        """Returns when these may be folded."""
        cost = sum(len(each.body.text) + LINE_COST for each in reports if isinstance(each.body, LogLine))
        if not cost:
            return
        wait_s = self._own.debt(cost)
        if self._own.level > _FREE:
            wait_s = max(wait_s, self._total.debt(cost))
        if wait_s:
            await asyncio.sleep(min(wait_s, _LONGEST_S))
