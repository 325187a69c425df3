"""A view of the node's files of its own for a task: its own /tmp, and what is bound into it. Standard library only.

Where a target does not exist, the directory that it belongs in is covered by a thin one that holds the same entries
and the new one: nothing on the node itself is changed.
"""

import ctypes
import os
import stat
from pathlib import Path
from typing import Any

_NEW_NAMESPACE = 0x0002_0000
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def settle(spec: dict[str, Any], path: str) -> None:
    """For this process and all that it starts. Raises `OSError`."""
    if _libc.unshare(_NEW_NAMESPACE) != 0:
        raise OSError(ctypes.get_errno(), "no view of its own can be made", "unshare")
    mount(None, "/", None, _REC | _PRIVATE)
    directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # as it stands in the new view
    sources = [os.open(bind["source"], os.O_PATH | os.O_CLOEXEC) for bind in spec["binds"]]
    if any(not Path(_top(bind["target"])).exists() for bind in spec["binds"]):
        _new_root(directory)
    mount(f"/proc/self/fd/{_folder(directory, 'tmp')}", "/tmp", None, _BIND)  # noqa: S108 - its own
    for source, bind in zip(sources, spec["binds"], strict=True):
        _bind(source, bind["target"], read_only=bind["read_only"])
        os.close(source)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    if _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _bind(source: int, target: str, *, read_only: bool) -> None:
    said = os.fstat(source)
    place = Path(target)
    if not place.exists():
        above = next(parent for parent in place.parents if parent.exists())
        if above != Path("/"):  # which is new already
            cover(above)
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if stat.S_ISDIR(said.st_mode):
            place.mkdir(mode=0o755)
        else:
            place.touch(mode=0o644)
    mount(f"/proc/self/fd/{source}", target, None, _BIND | _REC)
    if read_only:
        mount(None, target, None, _BIND | _REMOUNT | _RDONLY | _kept_flags(target))


def _kept_flags(target: str) -> int:
    """What the file system below was mounted with stays."""
    flags = os.statvfs(target).f_flag
    return flags & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)


def _new_root(directory: int) -> None:
    """The root itself cannot be covered in place."""
    root = f"/proc/self/fd/{_folder(directory, 'root')}"
    mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    fresh = os.open("root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)  # what is mounted on it
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _fill(here, Path(f"/proc/self/fd/{fresh}"))
    os.chroot(f"/proc/self/fd/{fresh}")
    os.chdir("/")
    os.close(here)
    os.close(fresh)


def cover(place: Path) -> None:
    """A thin directory over another, with the same entries."""
    below = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("tmpfs", str(place), "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    _fill(below, place)
    os.close(below)


def _fill(source: int, place: Path) -> None:
    for entry in os.scandir(f"/proc/self/fd/{source}"):
        target = place / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry.name, dir_fd=source))
            continue
        if entry.is_dir(follow_symlinks=False):
            target.mkdir()
        else:
            target.touch()
        mount(f"/proc/self/fd/{source}/{entry.name}", str(target), None, _BIND | _REC)


def _folder(directory: int, name: str) -> int:
    return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)


def _top(target: str) -> str:
    return "/" + target.lstrip("/").partition("/")[0]
