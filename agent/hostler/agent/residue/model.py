"""Inventories as plain data, and what differs between two."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.strict import decode_json

MOST_ITEMS = 400_000
MOST_TEXT = 512  # of a name or a detail
MOST_BYTES = 256 * 1024 * 1024
MESSAGE_CHARACTERS = 6_000
COMPLETE = "complete"
NOT_APPLICABLE = "not applicable: "
INCOMPLETE = "incomplete: "


class Item(NamedTuple):
    """One thing on the host. `detail` tells apart two states of the same thing; it holds no secret."""

    kind: str
    name: str
    detail: str = ""


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    items: sorted, each once.
    coverage: of each family `complete`, `not applicable: why` or `incomplete: why`.
    ignored: paths that the signed definition leaves out.
    """

    version: Literal[1] = 1
    taken_ms: int
    boot_id: str
    items: tuple[Item, ...]
    coverage: dict[str, str]
    ignored: tuple[str, ...] = ()

    @property
    def gaps(self) -> dict[str, str]:
        """Families that were not seen whole."""
        return {name: said for name, said in self.coverage.items() if said.startswith(INCOMPLETE)}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One difference from the baseline."""

    kind: str
    change: Literal["new", "changed", "gone"]
    name: str
    detail: str = ""

    def __str__(self) -> str:
        word = "" if self.change == "new" else f" ({self.change})"
        return f"{self.kind} {self.name}{word}"


def plain(text: str | bytes, most: int = MOST_TEXT) -> str:
    """Text that can be shown and stored whatever a tenant put into it: control characters and what is no
    UTF-8 are escaped, and the middle of something endless is left out."""
    raw = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
    shown = "".join(c if c.isprintable() else _escaped(c) for c in raw)
    if len(shown) <= most:
        return shown
    digest = sha256_hex(raw.encode("utf-8", "surrogateescape"))[:16]  # two long names stay two names
    return f"{shown[: most // 2]}...[{digest}]...{shown[-most // 4 :]}"


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def encode(inventory: Inventory) -> bytes:
    return canonical_json(inventory)


def decode(data: bytes) -> Inventory:
    """Raises `baseline_unusable`."""
    return decode_json(data, Inventory, code="baseline_unusable", what="baseline")


def compare(before: Inventory, after: Inventory) -> tuple[Finding, ...]:
    """Every difference, one of each kind first, so that a cut-off list still names every kind."""
    was, now = _by_name(before.items), _by_name(after.items)
    found: list[Finding] = []
    for key, detail in now.items():
        if key not in was:
            found.append(Finding(kind=key[0], change="new", name=key[1], detail=detail))
        elif was[key] != detail:
            found.append(Finding(kind=key[0], change="changed", name=key[1], detail=detail))
    found += [Finding(kind=k[0], change="gone", name=k[1], detail=d) for k, d in was.items() if k not in now]
    return _mixed(found)


def _by_name(items: Iterable[Item]) -> dict[tuple[str, str], str]:
    """Things that share a name (two keys of one comment, a socket of two families) count together."""
    together: dict[tuple[str, str], list[str]] = {}
    for item in items:
        together.setdefault((item.kind, item.name), []).append(item.detail)
    return {key: "; ".join(sorted(set(details))) for key, details in together.items()}


def _mixed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By how many of its kind stand before it, then by kind and name; what is new before what is gone."""
    order = {"new": 0, "changed": 1, "gone": 2}
    ordered = sorted(findings, key=lambda each: (each.kind, order[each.change], each.name))
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, Finding]] = []
    for finding in ordered:
        ranked.append((seen[finding.kind], finding))
        seen[finding.kind] += 1
    return tuple(finding for _, finding in sorted(ranked, key=lambda pair: pair[0]))


def summary(findings: Sequence[Finding], most: int = MESSAGE_CHARACTERS) -> str:
    """The findings in one sentence, as many as fit, and how many there are of how many kinds."""
    kinds = len({finding.kind for finding in findings})
    head = f"{len(findings)} differences from the baseline, of {kinds} kinds: "
    parts: list[str] = []
    room = most - len(head) - 40
    for finding in findings:
        text = str(finding) if len(str(finding)) <= 200 else f"{str(finding)[:197]}..."
        if room < len(text) + 2:
            break
        parts.append(text)
        room -= len(text) + 2
    left = len(findings) - len(parts)
    return head + "; ".join(parts) + (f"; and {left} more" if left else "")
