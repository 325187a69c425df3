"""One byte range of a file, as RFC 9110 §14 has it: what download tools ask for when they go on."""

import re
from typing import NamedTuple

from hostler.base.errors import error

_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})", re.ASCII)


class Span(NamedTuple):
    first: int
    length: int
    partial: bool


def span_of(asked: str, if_range: str, etag: str, size: int) -> Span:
    """What is to be sent. Several ranges, another unit, or a file that has changed since give the whole.

    Raises:
        HostlerError: `range_not_satisfiable` for one that begins behind the end.
    """
    whole = Span(0, size, False)
    found = _RANGE.fullmatch(asked.replace(" ", ""))
    if found is None or (if_range and if_range != etag):
        return whole
    first, last = found.groups()
    if not first and not last:
        return whole
    if not first:  # the last so many bytes
        count = min(int(last), size)
        begin, end = size - count, size - 1
    else:
        begin, end = int(first), min(int(last), size - 1) if last else size - 1
        if last and int(last) < begin:
            return whole
    if begin >= size or end < begin:
        raise error("range_not_satisfiable", f"the range begins behind the end of {size} bytes")
    return Span(begin, end - begin + 1, True)
