"""What people write for amounts: `2` or `500m` cores, `4GiB`, `90s`, `1h30m`. And back, for them to read."""

import re
from decimal import Decimal

from hostler.base.errors import HostlerError, error

_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_CPU = re.compile(rf"{_NUMBER}(m?)", re.ASCII)
_BYTES = re.compile(rf"{_NUMBER} ?(?:([KMGTP])(i?)B?|B)?", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)
_POWERS = "KMGTP"


def cpu_millis(text: str | float) -> int:
    """Thousandths of a core. Raises `invalid_request`."""
    found = _CPU.fullmatch(str(text).strip())
    if not found:
        raise _refused(text, "a number of cores, such as 2, 0.5 or 500m")
    return _whole(Decimal(found[1]) * (1 if found[2] else 1000), text, "thousandths of a core")


def byte_count(text: str | float) -> int:
    """`KB` is a thousand, `KiB` 1024. Raises `invalid_request`."""
    found = _BYTES.fullmatch(str(text).strip())
    if not found:
        raise _refused(text, "a number of bytes, such as 512MiB, 4GiB or 1G")
    factor = (1024 if found[3] else 1000) ** (_POWERS.index(found[2]) + 1) if found[2] else 1
    return _whole(Decimal(found[1]) * factor, text, "bytes")


def seconds(text: str | float) -> int:
    """Raises `invalid_request`."""
    plain = str(text).strip()
    if plain.isascii() and plain.isdigit() and len(plain) <= 9:
        return int(plain)
    found = _DURATION.fullmatch(plain)
    if not found or not any(found.groups()):
        raise _refused(text, "a time, such as 90s, 5m or 1h30m")
    return sum(int(part or 0) * each for part, each in zip(found.groups(), (86_400, 3600, 60, 1), strict=True))


def shown_bytes(count: int) -> str:
    """Binary, with one digit behind the point where one says something."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 or size == int(size) else f"{size:.1f} {unit}"


def shown_cpu(millis: int) -> str:
    return f"{millis / 1000:g}"


def shown_seconds(ms: int) -> str:
    """A span as people say it: two units are enough."""
    total = max(0, ms) // 1000
    for size, unit, lower, below in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if total >= size:
            rest = total % size // lower
            return f"{total // size}{unit}{rest}{below}" if rest else f"{total // size}{unit}"
    return f"{total}s"


def _whole(value: Decimal, text: object, unit: str) -> int:
    if value != value.to_integral_value():
        raise error("invalid_request", f"{str(text)[:40]!r} is no whole number of {unit}")
    return int(value)


def _refused(text: object, wanted: str) -> HostlerError:
    return error("invalid_request", f"{str(text)[:40]!r} is not {wanted}")
