"""Mounts and free space."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from hostler.agent.host.procfs import own_proc
from hostler.base.errors import error

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class MountPoint:
    """The mount that is seen at `path`: later ones hide earlier ones."""

    path: str
    fs_type: str
    read_only: bool


@dataclass(frozen=True)
class Space:
    total_bytes: int
    free_bytes: int

    @property
    def free_percent(self) -> float:
        return 100 * self.free_bytes / self.total_bytes if self.total_bytes else 0.0


class Disks:
    def __init__(self, root: Path) -> None:
        self._root = root

    def mount_at(self, path: str) -> MountPoint | None:
        """What is mounted exactly there. Raises `file_error`."""
        wanted = path.rstrip("/") or "/"
        found = [mount for mount in self._mounts() if mount.path == wanted]
        return found[-1] if found else None

    def below(self, path: str) -> list[MountPoint]:
        """What is mounted somewhere in that directory, and not at it. Raises `file_error`."""
        start = path.rstrip("/") + "/"
        last = {mount.path: mount for mount in self._mounts() if mount.path.startswith(start) and mount.path != start}
        return list(last.values())

    def _mounts(self) -> list[MountPoint]:
        table = own_proc(self._root) / "mountinfo"
        try:
            return parse_mounts(table.read_text("utf-8", "surrogateescape"))
        except OSError as err:
            raise error("file_error", f"the mount table {table} cannot be read: {err.strerror}") from err

    def space(self, path: str) -> Space:
        """What a process without privileges may still use there. Blocks on a dead network file system.
        Raises `file_error`."""
        try:
            found = os.statvfs(self._root / path.lstrip("/"))
        except OSError as err:
            raise error("file_error", f"the file system at {path} cannot be asked: {err.strerror}") from err
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def parse_mounts(table: str) -> list[MountPoint]:
    """/proc/PID/mountinfo, in the order of mounting."""
    return [mount for mount in map(_parse, table.splitlines()) if mount is not None]


def _parse(line: str) -> MountPoint | None:
    """`id parent major:minor root point options [fields] - type source super-options`."""
    left, separator, right = line.partition(" - ")
    first, last = left.split(" "), right.split(" ")
    if not separator or len(first) < 6 or len(last) < 3:
        return None
    point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), first[4])
    read_only = "ro" in first[5].split(",") or "ro" in last[2].split(",")
    return MountPoint(point, last[0], read_only)
