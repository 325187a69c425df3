"""The collective tests of nccl-tests and rccl-tests, which print one table.

Format: a comment line a rank, a row a message size with the results out of place and in place, then the number of
values out of bounds and the average bus bandwidth. With validation off, `#wrong` is N/A: that proves nothing.
"""

import math
import re
from collections.abc import Callable, Sequence

from hostler.agent.hardware.reports import Collective, Unreadable

_RANK = re.compile(r"#\s+Rank\s+(\d{1,5})\s+.*\bdevice\s+\d{1,4}\b.*")
_ROW = re.compile(r"\s*(\d{1,20})\s+(\d{1,20})\s+(\w{1,32})\s+(\w{1,32})\s+(-?\d{1,5})((?:\s+\S{1,32}){8})\s*")
_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)\s*")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:\s*(\S+)\s*")


def collective(_argv: Sequence[str], output: str) -> Collective:
    """Everything has to be there: ranks, at least one row, bounds and average."""
    ranks: set[int] = set()
    rows = wrong = 0
    bounds = average = None
    for line in output.splitlines():
        if match := _RANK.fullmatch(line):
            ranks.add(int(match[1]))
        elif match := _BOUNDS.fullmatch(line):
            bounds = int(match[1]) + (match[2] != "OK")
        elif match := _AVERAGE.fullmatch(line):
            average = _number(match[1])
        elif match := _ROW.fullmatch(line):
            rows, wrong = rows + 1, wrong + _wrong(match[6].split())
    if bounds is None or average is None or not rows:
        raise Unreadable("the collective test did not print its whole table")
    if not ranks or ranks != set(range(len(ranks))):
        raise Unreadable("the collective test did not name its ranks")
    return Collective(ranks=len(ranks), rows=rows, wrong=wrong + bounds, bus_bandwidth=average)


def _wrong(cells: list[str]) -> int:
    """Wrong values of one row: time, algbw, busbw and #wrong, twice."""
    for cell in (*cells[0:3], *cells[4:7]):
        _number(cell)
    found = (cells[3], cells[7])
    if not all(re.fullmatch(r"[0-9]{1,18}", cell) for cell in found):
        raise Unreadable(f"the results were not validated: #wrong is {found[0][:32]} and {found[1][:32]}")
    return sum(map(int, found))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise Unreadable(f"{text[:32]!r} is no measurement")
    return value


READERS: dict[str, Callable[[Sequence[str], str], Collective]] = {
    f"{name}_perf": collective
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv")
}
