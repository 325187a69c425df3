"""What a vendor's tool says about the devices, in one shape for all of them.

A report is output of a program that we did not write: everything in it is checked, bounded and typed here, and
what does not fit raises `Unreadable`. Silence is never health: a field that a tool leaves out is None.
"""

import csv
import re
from dataclasses import dataclass
from typing import Any

import msgspec

MOST_CHARACTERS = 65_536  # what is kept of an output; a longer one has lost its beginning
MOST_DEVICES = 1024
_ADDRESS = re.compile(r"(?:[0-9a-f]{4})?([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")


class Unreadable(Exception):
    """The output is not in its program's documented format."""


@dataclass(frozen=True)
class Device:
    """`fault` is what the tool says is wrong with it, "" otherwise.

    Attributes:
        index: how the tool counts it.
        pci: address as sysfs writes it, or "".
        memory_bytes: all of it; None where the tool does not say.
        uncorrected_errors: of memory, since the driver was loaded; None where the tool does not say.
    """

    index: str
    name: str = ""
    uuid: str = ""
    pci: str = ""
    driver: str = ""
    memory_bytes: int | None = None
    uncorrected_errors: int | None = None
    fault: str = ""

    def shown(self) -> str:
        return f"device {self.index}" + (f" at {self.pci}" if self.pci else "")


@dataclass(frozen=True)
class Collective:
    """A collective test that ended. `bus_bandwidth` is the average in GB/s over all sizes."""

    ranks: int
    rows: int
    wrong: int
    bus_bandwidth: float


@dataclass(frozen=True)
class Exposed:
    """What a container could be given: names of devices, or the handlers of a runtime that knows none."""

    devices: int | None
    names: tuple[str, ...]


def word(value: Any, what: str) -> str:
    """One short printable text, as a tool's own JSON or CSV gives it."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise Unreadable(f"{what} is no text")
    if isinstance(value, int) and abs(value) >= 1 << 64:
        raise Unreadable(f"{what} is too big a number")
    text = str(value).strip()
    if len(text) > 256 or not text.isprintable():
        raise Unreadable(f"{what} is too long or not printable")
    return "" if text in ("N/A", "None") else text


def address(text: str) -> str:
    """A PCI address as sysfs writes it, from one with a domain of four or eight digits; "" for none."""
    if not text:
        return ""
    match = _ADDRESS.fullmatch(text.lower())
    if match is None:
        raise Unreadable(f"{text!r} is no PCI address")
    return f"{match[1]}:{match[2]}:{match[3]}.{match[4]}"


def count(value: Any, what: str) -> int | None:
    """A whole number that is not below 0; None where the tool does not say."""
    text = word(value, what)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise Unreadable(f"{what} is no number: {text!r}")
    return int(text)


def rows_of(output: str) -> list[list[str]]:
    """The rows of a CSV, without empty ones."""
    try:
        return [row for row in csv.reader(output.splitlines(), skipinitialspace=True) if row]
    except csv.Error as err:
        raise Unreadable("the output is no CSV") from err


def json_of(output: str) -> Any:
    """The JSON document in an output; lines of warning before it are passed over."""
    lines = output.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith(("WARNING", "INFO"))):
        lines.pop(0)
    try:
        return msgspec.json.decode("\n".join(lines))
    except (msgspec.DecodeError, RecursionError) as err:
        raise Unreadable("the output is no JSON") from err


def mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is no object")
    return value


def listing(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_DEVICES:
        raise Unreadable(f"{what} is no list")
    return value
