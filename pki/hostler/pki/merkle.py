"""Merkle tree hashing as in RFC 9162 (and RFC 6962): a root over leaves, and proofs that a leaf is in it.

Our own sixty lines: `pymerkle` brings a storage layer with it; it is the referee of the tests.
"""

import hashlib
from collections.abc import Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """The prefix keeps a leaf from passing for an inner node."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """All levels, leaves first. A last node without a neighbour moves up as it is: the RFC's split at the
    largest power of two, seen from below."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        level = [leaf_hash(leaf) for leaf in leaves]
        self._levels = [level]
        while len(level) > 1:
            above = [node_hash(left, right) for left, right in zip(level[::2], level[1::2], strict=False)]
            level = above + level[len(level) & ~1 :]
            self._levels.append(level)

    @property
    def size(self) -> int:
        return len(self._levels[0])

    @property
    def root(self) -> bytes:
        return self._levels[-1][0] if self.size else EMPTY_ROOT

    def path(self, index: int) -> list[bytes]:
        """The inclusion proof of leaf `index`: neighbours from the leaf up. Raises `IndexError`."""
        if not 0 <= index < self.size:
            raise IndexError(f"leaf {index} of {self.size}")
        found: list[bytes] = []
        for level in self._levels[:-1]:
            if index ^ 1 < len(level):
                found.append(level[index ^ 1])
            index >>= 1
        return found


def is_included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether `path` leads from `leaf` at `index` to the root of a tree of `size` leaves (RFC 9162 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    here, last, found = index, size - 1, leaf_hash(leaf)
    for neighbour in path:
        if last == 0:
            return False  # longer than the tree is high
        if here & 1 or here == last:
            found = node_hash(neighbour, found)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            found = node_hash(found, neighbour)
        here, last = here >> 1, last >> 1
    return last == 0 and found == root
