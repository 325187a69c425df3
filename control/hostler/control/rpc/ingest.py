"""How fast log lines are taken: a node's share and everybody's, so that one that floods holds up itself (OB-07, N1).

Nothing is dropped here: a batch above the rate waits, its node's stream with it, and the node's own quota behind that.
"""

import asyncio
from collections.abc import Iterator, Sequence

from hostler.base.clock import Clock, Pace
from hostler.control.kernel.log_rows import LINE_COST
from hostler.wire.report import LogLine, Report

_FREE = 65_536  # a node that says no more in a second never waits for what others say
_AT_ONCE = 65_536
_LONGEST_S = 10.0  # a stream that stands still for longer looks like one that is dead


class Ingest:
    """One a control plane; `Share` is one session's."""

    def __init__(self, clock: Clock, node_rate: int, total_rate: int) -> None:
        self._clock = clock
        self._node_rate = node_rate
        self._total = Pace(total_rate, clock)

    def share(self) -> "Share":
        return Share(Pace(self._node_rate, self._clock), self._total)


def parts(reports: tuple[Report, ...]) -> Iterator[tuple[Report, ...]]:
    """The same in order, with so few log lines in each that nobody else's commit waits behind them for long."""
    begin = cost = 0
    for number, report in enumerate(reports):
        cost += _cost(report)
        if cost >= _AT_ONCE:
            yield reports[begin : number + 1]
            begin, cost = number + 1, 0
    if begin < len(reports):
        yield reports[begin:]


def _cost(report: Report) -> int:
    return len(report.body.text) + LINE_COST if isinstance(report.body, LogLine) else 0


class Share:
    def __init__(self, own: Pace, total: Pace) -> None:
        self._own = own
        self._total = total

    async def admit(self, reports: Sequence[Report]) -> None:
        """Returns when these may be folded."""
        cost = sum(map(_cost, reports))
        if not cost:
            return
        wait_s = self._own.debt(cost)
        if self._own.level > _FREE:
            wait_s = max(wait_s, self._total.debt(cost))
        if wait_s:
            await asyncio.sleep(min(wait_s, _LONGEST_S))
