"""May this answer be added to what we hold? Pure: every rule against splicing stands here.

A wrong answer is never mended or guessed at. It ends in one of three ways: `Accept`, which says at
which offset the body starts; `StartOver`, which drops what is held; or an error.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from hostler.base.errors import HostlerError, error

# RFC 9110 §14.4. Nothing else is read into it: no white space, no second range, no missing total.
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"', re.ASCII)


@dataclass(frozen=True)
class Validator:
    """What tells one version of the object from another. An absent one is ""."""

    etag: str = ""
    last_modified: str = ""

    def if_range(self) -> str:
        """The value that makes a range conditional; "" when nothing here can (weak tags cannot)."""
        return self.etag if _STRONG_ETAG.fullmatch(self.etag) else self.last_modified

    def same_as(self, other: "Validator") -> bool:
        """Whether both surely name one version: judged by what was sent as `If-Range`."""
        if _STRONG_ETAG.fullmatch(self.etag):
            return self.etag == other.etag
        return bool(self.last_modified) and self.last_modified == other.last_modified


@dataclass(frozen=True)
class Held:
    """What a request asked to continue: `offset` bytes of one version, `total` 0 while unknown."""

    offset: int = 0
    total: int = 0
    validator: Validator = Validator()


@dataclass(frozen=True)
class Answer:
    """Status and headers, names in lower case; a header sent twice has both values, comma-joined."""

    status: int
    headers: dict[str, str]
    chunked: bool = False

    def get(self, name: str) -> str:
        return self.headers.get(name, "")

    def validator(self) -> Validator:
        return Validator(self.get("etag"), self.get("last-modified"))


@dataclass(frozen=True)
class Accept:
    """The body starts at `start`; `length` and `total` are 0 where the server does not say (-1: no
    length, the body ends with the connection or its last chunk)."""

    start: int
    length: int
    total: int
    validator: Validator


class StartOver(Exception):
    """Drop what is held and ask again without a range.

    Attributes:
        reason: what was wrong, for the error if there is no further try.
        blame: True when the server broke a rule, which it may do once.
    """

    def __init__(self, reason: HostlerError, *, blame: bool) -> None:
        super().__init__(reason.message)
        self.reason = reason
        self.blame = blame


def judge(answer: Answer, held: Held) -> Accept:
    """Raises:
    StartOver: what is held cannot be continued.
    HostlerError: `bad_range` or `bad_response`, when nothing was held and still the answer is wrong.
    """
    encoding = answer.get("content-encoding").strip().lower()
    if encoding not in ("", "identity"):
        raise _broken("bad_response", f"the source encodes the body as {encoding[:40]!r}, unasked")
    length = _length(answer)
    if answer.status == 206:
        return _judge_part(answer, held, length)
    if answer.status == 200:
        return Accept(0, length, max(length, 0), answer.validator())
    if answer.status == 416:
        raise StartOver(error("bad_range", "the source has no bytes at the offset held"), blame=True)
    raise _broken("bad_response", f"the source answered with status {answer.status}")


def _broken(code: str, sentence: str) -> StartOver:
    return StartOver(error(code, sentence), blame=True)


def _length(answer: Answer) -> int:
    text = answer.get("content-length").strip()
    if not text or answer.chunked:
        return -1
    if _LENGTH.fullmatch(text) is None:
        raise _broken("bad_response", f"the source sent the content length {text[:40]!r}")
    return int(text)


def _judge_part(answer: Answer, held: Held, length: int) -> Accept:
    """Each rule names what would be spliced without it (A2)."""
    if held.offset == 0:
        raise _broken("bad_range", "the source sent a part although the whole was asked for")
    if answer.get("content-type").strip().lower().startswith("multipart/"):
        raise _broken("bad_range", "the source sent several ranges in one body")
    text = answer.get("content-range")
    match = _CONTENT_RANGE.fullmatch(text)
    if match is None:
        raise _broken("bad_range", f"the source sent the content range {text[:60]!r}")
    start, last = int(match[1]), int(match[2])
    total = held.total if match[3] == "*" else int(match[3])
    rules: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: total > 0, "no total length is known"),
        (lambda: start == held.offset, f"it starts at {start}, not at {held.offset}"),
        (lambda: last == total - 1, f"it ends at {last}, not at {total - 1}"),
        (lambda: held.total in (0, total), f"the total was {held.total} and is {total} now"),
        (lambda: length in (-1, last - start + 1), f"its length is {length}"),
    )
    for holds, complaint in rules:
        if not holds():
            raise _broken("bad_range", f"the source sent the content range {text[:60]!r}: {complaint}")
    if not held.validator.same_as(answer.validator()):
        changed = error("bad_range", "the object at the source changed while it was transferred")
        raise StartOver(changed, blame=False)
    return Accept(start, last - start + 1, total, answer.validator())
