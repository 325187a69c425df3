"""Where the bytes of a bundle come from, and how much of them this node takes."""

from collections.abc import AsyncGenerator
from typing import Annotated, NamedTuple, Protocol

import msgspec

Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]


class Piece(NamedTuple):
    """`total` is the length of the whole bundle, as the sender has it."""

    offset: int
    total: int
    data: bytes


class Source(Protocol):
    """Pieces from `offset` on, in order. Raises `HostlerError`s: the control plane's own, `controller_unreachable`."""

    def __call__(self, task_id: str, attempt_uid: str, sha256: str, offset: int) -> AsyncGenerator[Piece, None]: ...


class BundleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    max_bytes: of a bundle as it is sent.
    unpacked_bytes, entries: of what one unpacks to.
    cache_bytes: of all unpacked bundles; above, those that no task uses go, least recently used first.
    reserve_bytes: what stays free on the file system.
    retries: tries without progress before a fetch is given up.
    """

    max_bytes: Bytes = 1 << 30
    unpacked_bytes: Bytes = 4 << 30
    entries: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 200_000
    cache_bytes: Bytes = 20 << 30
    reserve_bytes: Bytes = 1 << 30
    retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 8
