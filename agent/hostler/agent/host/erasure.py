"""Erasing a disk, and the proof by reading it back (R1).

    canaries written, flushed, read back ─▶ erased ─▶ flushed ─▶ first and last MiB, canaries, fresh samples read

A drive that acknowledges and does nothing keeps the canaries, or never took them. No method is replaced by a
weaker one.
"""

import errno
import random
import secrets
from collections.abc import Callable
from typing import NamedTuple

from hostler.agent.host.block_devices import BLOCK, CHUNK, Device
from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError, error

EDGE = 1024 * 1024
CANARIES = 64
SAMPLES = 256
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)
KERNEL_METHODS = ("zeroout", "secure_discard")


class Proof(NamedTuple):
    """`read_bytes` were read back, of them `canaries` blocks that had held a mark of this very run."""

    size_bytes: int
    canaries: int
    samples: int
    read_bytes: int
    digest: str  # over what was read back


class Interrupted(Exception):
    """It was told to stop, or the time is up; the disk is in no known state."""


Step = Callable[[int, int], None]  # done, total; raises `Interrupted`


def plant(device: Device, name: str, rng: random.Random) -> dict[int, bytes]:
    """Marks spread over the disk, at its very ends too. Raises `erase_unproved` where they do not stay."""
    offsets = {0, last_block(device), *_random_blocks(device, CANARIES, rng)}
    marks = {offset: b"hostler canary " + secrets.token_bytes(BLOCK - 15) for offset in sorted(offsets)}
    with _Io(name):
        for offset, mark in marks.items():
            device.write(offset, mark)
        device.flush()
        for offset, mark in marks.items():
            if device.read(offset, BLOCK) != mark:
                raise error("erase_unproved", f"{name} acknowledges writes and does not keep them (byte {offset})")
    return marks


def erase(device: Device, name: str, method: str, step: Step) -> None:
    """Zeros over the whole disk: written here (`overwrite`), or by the kernel and the drive."""
    zeros = bytes(CHUNK)
    for offset in range(0, device.size, CHUNK):
        step(offset, device.size)
        count = min(CHUNK, device.size - offset)
        with _Io(name, method):
            if method in KERNEL_METHODS:
                device.erase(method, offset, count)
            else:
                device.write(offset, zeros[:count])
    with _Io(name):
        device.flush()


def prove(device: Device, name: str, marks: dict[int, bytes], step: Step, *, zeros: bool = True) -> Proof:
    """Reads back. Raises `erase_unproved` with the first byte where data stayed.

    Args:
        zeros: everything has to read as zeros; otherwise (a drive's own sanitize) only no mark may be left.
    """
    edges = [(0, min(EDGE, device.size)), (max(0, device.size - EDGE), min(EDGE, device.size))]
    fresh = _random_blocks(device, SAMPLES, random.SystemRandom())
    pieces = [*edges, *((offset, BLOCK) for offset in sorted({*marks, *fresh}))]
    digests, read = [], 0
    for number, (offset, count) in enumerate(pieces):
        step(number, len(pieces))
        with _Io(name):
            found = device.read(offset, count)
        if zeros and found.strip(b"\0"):
            raise error("erase_unproved", f"{name} acknowledged the erasure and still holds data at byte {offset}")
        mark = marks.get(offset)
        if mark is not None and found[:BLOCK] == mark:
            raise error("erase_unproved", f"{name} acknowledged the erasure and still holds what was at byte {offset}")
        digests.append(sha256_hex(found))
        read += count
    return Proof(device.size, len(marks), len(fresh), read, sha256_hex("".join(digests).encode()))


def last_block(device: Device) -> int:
    return max(0, device.size // BLOCK - 1) * BLOCK


def _random_blocks(device: Device, count: int, rng: random.Random) -> list[int]:
    blocks = max(1, device.size // BLOCK)
    return [rng.randrange(blocks) * BLOCK for _ in range(count)]


class _Io:
    """Names the disk in what goes wrong with it."""

    def __init__(self, name: str, method: str = "") -> None:
        self._name, self._method = name, method

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, err: BaseException | None, trace: object) -> None:
        if isinstance(err, HostlerError) or not isinstance(err, OSError):
            return
        if self._method in KERNEL_METHODS and err.errno in _UNSUPPORTED:
            hint = "name another method in the definition; none is chosen in its place"
            raise error("sanitize_unsupported", f"{self._name} does not do {self._method}", hint=hint) from err
        raise error("erase_unproved", f"{self._name} fails: {err.strerror or err}") from err
