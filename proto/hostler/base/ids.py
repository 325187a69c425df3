"""Identifiers: a prefix that names the kind, then a time-sortable random part."""

import re
import secrets
from typing import NewType

NodeId = NewType("NodeId", str)
OperationId = NewType("OperationId", str)
TaskId = NewType("TaskId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)

OPERATION, TASK, NODE, ATTEMPT, TOKEN, EVENT = "op", "tsk", "nod", "att", "tok", "evt"


def _base32(value: int, width: int) -> str:
    digits = []
    for _ in range(width):
        digits.append(_ALPHABET[value & 31])
        value >>= 5
    return "".join(reversed(digits))


def new_id(prefix: str, now_ms: int, entropy: int | None = None) -> str:
    """`<prefix>_<9 characters of time><16 of randomness>`, sortable by creation.

    Args:
        now_ms: Unix time in milliseconds.
        entropy: 80 random bits; drawn from the system when absent.
    """
    noise = secrets.randbits(80) if entropy is None else entropy
    return f"{prefix}_{_base32(now_ms, 9)}{_base32(noise, 16)}"


def is_name(text: str) -> bool:
    """Whether `text` may name a node, tenant or project: a lower-case DNS-like label, 1-63 characters."""
    return _NAME.fullmatch(text) is not None
