"""Two things done to bytes on the way: not too many a second, and each part against its own digest."""

import hashlib
import time

from hostler.base.digest import same_digest
from hostler.base.errors import error

_NAP_S = 0.2  # at most at once, so that a cut connection is noticed soon


class Pace:
    """Holds a reader back to `most_per_s` bytes a second; 0 holds nothing back. Used by one thread."""

    def __init__(self, most_per_s: int) -> None:
        self._most = most_per_s
        self._free_at = 0.0

    def took(self, count: int) -> None:
        """Called after each read; sleeps while ahead of the rate."""
        if not self._most:
            return
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + count / self._most
        while (ahead := self._free_at - time.monotonic()) > 0:
            time.sleep(min(ahead, _NAP_S))


class Parts:
    """Checks each part of a body against its own SHA-256, from `offset` on. A part that was begun before is left to
    the digest of the whole."""

    def __init__(self, size: int, digests: tuple[str, ...], offset: int) -> None:
        self._size = size if digests else 0
        self._digests, self._offset = digests, offset
        self._known = not self._size or offset % self._size == 0
        self._digest = hashlib.sha256()

    def update(self, data: memoryview) -> None:
        """Raises `digest_mismatch` naming the part."""
        while self._size and data:
            count = min(len(data), self._size - self._offset % self._size)
            self._digest.update(data[:count])
            data = data[count:]
            self._offset += count
            if self._offset % self._size == 0:
                self._settle(self._offset // self._size - 1)

    def _settle(self, index: int) -> None:
        found, self._digest = self._digest.hexdigest(), hashlib.sha256()
        known, self._known = self._known, True
        if known and (index >= len(self._digests) or not same_digest(found, self._digests[index])):
            raise error("digest_mismatch", f"part {index} of the source has sha256 {found}, which is not the one given")
