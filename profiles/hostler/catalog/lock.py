"""Locks of Python environments, read strictly: exact versions, hashes, and nothing else (SK-06, OD-28).

What pip would take besides (options, files, URLs, ranges) is refused here, before anything runs.
"""

import re
from collections.abc import Iterator

from hostler.base.errors import error

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?"
_PIN = re.compile(
    rf"(?P<name>{_NAME})(?:\[[A-Za-z0-9,._ -]{{0,200}}\])?=="
    r"(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]{0,100})"
    r"(?:[ ]*;[ ]*(?P<marker>[A-Za-z0-9_.<>=!~'\"() -]{1,500}?))?"
    r"(?P<hashes>(?:[ ]+--hash=sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128}))+)",
    re.ASCII,
)
_CONDA = re.compile(
    r"(?P<url>https://[A-Za-z0-9._~:/\[\]%+!-]+\.(?:conda|tar\.bz2))"
    r"#(?:[0-9a-f]{32}|(?:sha256:)?[0-9a-f]{64})",
    re.ASCII,
)
MOST_PINS = 4096


def pip_lock(text: str) -> tuple[str, ...]:
    """The pins of a requirements file, one line each, sorted: equal locks are equal whatever their layout.

    Raises:
        HostlerError: `lock_refused` naming the first line that is no pin with a hash.
    """
    pins = []
    for number, line in _lines(text):
        if _PIN.fullmatch(line) is None:
            raise error(
                "lock_refused", f"line {number} of the lock is no exact version with a sha256 hash: {line[:80]!r}"
            )
        pins.append(" ".join(line.split()))
    return _whole(pins)


def conda_lock(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of an explicit list, sorted, and their URLs.

    Raises:
        HostlerError: `lock_refused`.
    """
    lines = [(number, line) for number, line in _lines(text) if line != "@EXPLICIT"]
    if "@EXPLICIT" not in text.splitlines():
        raise error("lock_refused", "the lock has no line @EXPLICIT, so conda would have to solve it")
    urls = []
    for number, line in lines:
        found = _CONDA.fullmatch(line)
        if found is None:
            raise error("lock_refused", f"line {number} of the lock is no https URL of a package with its hash")
        urls.append(found["url"])
    return _whole([line for _, line in lines]), tuple(urls)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """(number, line), continuations joined, comments and empty lines left out."""
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if line.startswith("#") or (not line and not held):
            continue
        start = start if held else number
        held = f"{held} {line.removesuffix(chr(92)).strip()}".strip()
        if not line.endswith("\\"):
            yield start, held
            held = ""
    if held:
        yield start, held


def _whole(lines: list[str]) -> tuple[str, ...]:
    if not lines:
        raise error("lock_refused", "the lock names no package")
    if len(lines) > MOST_PINS:
        raise error("lock_refused", f"the lock names more than {MOST_PINS} packages")
    return tuple(sorted(lines))
