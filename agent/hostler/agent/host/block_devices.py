"""Whole disks: what they are, who uses them, and reading and writing them past every cache."""

import contextlib
import fcntl
import mmap
import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from hostler.base.errors import error

BLOCK = 4096
CHUNK = 4 * 1024 * 1024
_BLKFLSBUF, _BLKDISCARD, _BLKSECDISCARD, _BLKZEROOUT = 0x1261, 0x1277, 0x127D, 0x127F
_RANGE = {"zeroout": _BLKZEROOUT, "secure_discard": _BLKSECDISCARD, "discard": _BLKDISCARD}
_NAME = re.compile(r"/dev/([a-z][a-z0-9]{1,30})", re.ASCII)


class Disk(NamedTuple):
    path: str
    number: str  # major:minor
    size_bytes: int
    serial: str
    model: str


class Device(Protocol):
    """An open disk. Errors are OSErrors."""

    size: int

    def read(self, offset: int, count: int) -> bytes: ...

    def write(self, offset: int, data: bytes) -> None: ...

    def erase(self, how: str, offset: int, count: int) -> None: ...

    def flush(self) -> None: ...


class BlockDevices:
    """The door. Methods block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sys = root / "sys"

    def describe(self, path: str) -> Disk:
        """Raises `device_refused` for what is no block device of this node."""
        match = _NAME.fullmatch(path)
        try:
            status = os.lstat(self._root / path.lstrip("/")) if match else None
        except FileNotFoundError:
            status = None
        if status is None or not stat.S_ISBLK(status.st_mode):
            raise error("device_refused", f"{path} is no block device of this node")
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        at = self._sys / "dev/block" / number
        serial = _word(at / "device/serial") or _word(at / "device/wwid") or _word(at / "wwid")
        return Disk(path, number, int(_word(at / "size") or 0) * 512, serial, _word(at / "device/model"))

    def check_free(self, disk: Disk) -> None:
        """Raises `device_refused` with everything that stands against erasing it: part of another device, in use,
        or only one of the ways to the disk."""
        reasons = list(dict.fromkeys(self._reasons(disk)))
        if reasons:
            raise error("device_refused", f"{disk.path} is not erased: {'; '.join(reasons)}")

    def _reasons(self, disk: Disk) -> Iterator[str]:
        at = self._sys / "dev/block" / disk.number
        name = at.resolve().name
        if not disk.size_bytes:
            yield "it has no size"
        if (at / "partition").exists():
            yield "it is a partition, not a whole disk"
        if _word(at / "ro") == "1":
            yield "it is read-only"
        hidden = _listing(at / "slaves")
        if hidden or name.startswith(("dm-", "md")):
            yield f"it is a view of other disks ({', '.join(hidden) or 'none named'}), which are to be named themselves"
        parts = [at, *(path for path in _paths(at.resolve()) if (path / "partition").exists())]
        for part in parts:
            for holder in _listing(part / "holders"):
                yield f"{holder} (RAID, LVM or multipath) is built on it"
        numbers = {_word(part / "dev") for part in parts} | {disk.number}
        yield from self._users(numbers)
        yield from self._other_paths(disk, name)

    def _users(self, numbers: set[str]) -> Iterator[str]:
        for table in (self._root / "proc/1/mountinfo", self._root / "proc/self/mountinfo"):
            with contextlib.suppress(OSError):
                for line in table.read_text("utf-8", "surrogateescape").splitlines():
                    fields = line.split(" ")
                    if len(fields) > 4 and fields[2] in numbers:
                        yield f"it is mounted at {fields[4]}"
        with contextlib.suppress(OSError):
            for line in (self._root / "proc/swaps").read_text().splitlines()[1:]:
                path = self._root / line.split()[0].lstrip("/")
                with contextlib.suppress(OSError):
                    found = path.stat()
                    if f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" in numbers:
                        yield "it is swapped to"

    def _other_paths(self, disk: Disk, name: str) -> Iterator[str]:
        wwid = _word(self._sys / "dev/block" / disk.number / "device/wwid")
        for other in _listing(self._sys / "block"):
            if wwid and other != name and _word(self._sys / "block" / other / "device/wwid") == wwid:
                yield f"/dev/{other} is another path to the same disk"

    @contextlib.contextmanager
    def open(self, disk: Disk) -> Iterator[Device]:
        """For ourselves alone: the kernel refuses it where anything has claimed the disk, also what nobody listed.

        Raises:
            HostlerError: `device_refused`.
        """
        path = self._root / disk.path.lstrip("/")
        try:
            fd = os.open(path, os.O_RDWR | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as err:
            raise error("device_refused", f"{disk.path} cannot be had alone: {err.strerror}") from err
        try:
            found = os.fstat(fd)
            if f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" != disk.number:
                raise error("device_refused", f"{disk.path} was replaced meanwhile")
            yield _Open(fd)
        finally:
            os.close(fd)


class _Open:
    """Writes go through the cache and are flushed; reads go past it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.lseek(fd, 0, os.SEEK_END)
        self._direct = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)

    def __del__(self) -> None:
        os.close(self._direct)

    def read(self, offset: int, count: int) -> bytes:
        """Whole blocks, from the device itself."""
        with mmap.mmap(-1, max(count, BLOCK)) as buffer:  # a page's alignment is what O_DIRECT wants
            view = memoryview(buffer)[:count]
            try:
                got = os.preadv(self._direct, [view], offset)
                if got != count:
                    raise OSError(f"{got} of {count} bytes came")
                return bytes(view)
            finally:
                view.release()

    def write(self, offset: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self._fd, rest, offset)
            rest, offset = rest[done:], offset + done

    def erase(self, how: str, offset: int, count: int) -> None:
        """Has the kernel, and where it can the drive, do it. Raises OSError EOPNOTSUPP where it does not."""
        fcntl.ioctl(self._fd, _RANGE[how], struct.pack("=QQ", offset, count))

    def flush(self) -> None:
        os.fsync(self._fd)
        fcntl.ioctl(self._fd, _BLKFLSBUF, 0)


def _word(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()[:200]
    except OSError:
        return ""


def _listing(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []


def _paths(path: Path) -> list[Path]:
    return [path / name for name in _listing(path)]
