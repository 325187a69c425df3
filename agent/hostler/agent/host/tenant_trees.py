"""Directories of a tenant: made, moved out of the way, removed, with whatever a hostile owner put into them.

Everything goes by descriptors without following links; a removal never crosses into another file system.
"""

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hostler.agent.host.disks import parse_mounts
from hostler.agent.host.files import Files, within
from hostler.agent.host.procfs import own_proc
from hostler.agent.host.removal import remove_at
from hostler.base.errors import error

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UMOUNT_NOFOLLOW = 8
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108
NAMED = ("/var/spool/cron/crontabs", "/var/spool/cron/atjobs", "/var/mail")  # files called after their users

JOURNALS = ("/var/log/journal", "/run/log/journal")


class TenantTrees:
    """The door. Methods block."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files
        self._all = Files(root)

    def make(self, path: str, uid: int, gid: int, mode: int = 0o700) -> bool:
        """A directory inside the allowed prefixes, with this owner; whether it was made now.

        Raises:
            HostlerError: `path_denied`; `path_taken` when something of another owner stands there.
        """
        self._files.may_write(path)
        return self._make(path, uid, gid, mode)

    def make_home(self, name: str, uid: int, gid: int) -> bool:
        return self._make(f"/home/{name}", uid, gid, 0o700)

    def make_private(self, path: str, uid: int, gid: int) -> bool:
        """A directory inside a home that was just made."""
        return self._make(path, uid, gid, 0o700)

    def _make(self, path: str, uid: int, gid: int, mode: int) -> bool:
        with Files(self._root).parent(path, make=True) as (directory, name):
            try:
                os.mkdir(name, 0o700, dir_fd=directory)
                made = True
            except FileExistsError:
                made = False
            try:
                fd = os.open(name, _DIRECTORY, dir_fd=directory)
            except OSError as err:
                raise error("path_taken", f"{path} is there and is no directory") from err
            try:
                if not made and os.fstat(fd).st_uid != uid:
                    raise error("path_taken", f"{path} is there and belongs to user id {os.fstat(fd).st_uid}")
                if made:
                    os.fchown(fd, uid, gid)
                    os.fchmod(fd, mode)
            finally:
                os.close(fd)
        return made

    def missing_above(self, path: str) -> list[str]:
        """Directories that making `path` has to make first, the outermost first."""
        parts = path.split("/")[1:-1]
        above = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
        return [each for each in above if self._all.stat(each) is None]

    def remove_empty(self, path: str) -> None:
        """Leaves one that holds anything."""
        with contextlib.suppress(OSError), self._all.parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)

    def owner(self, path: str) -> int | None:
        found = self._all.stat(path)
        return found.st_uid if found is not None and stat.S_ISDIR(found.st_mode) else None

    def set_aside(self, path: str, name: str) -> bool:
        """Renames what stands at `path`, a link itself and not what it leads to; whether there was anything."""
        try:
            with self._all.parent(path) as (directory, present):
                with contextlib.suppress(FileNotFoundError):
                    os.stat(name, dir_fd=directory, follow_symlinks=False)
                    remove_at(directory, name, name)
                os.rename(present, name, src_dir_fd=directory, dst_dir_fd=directory)
        except FileNotFoundError:
            return False
        return True

    def remove(self, path: str) -> bool:
        """With all that is in it; whether there was anything. Raises `busy` at a mount, `file_error`."""
        try:
            with self._all.parent(path) as (directory, name):
                os.stat(name, dir_fd=directory, follow_symlinks=False)
                remove_at(directory, name, path)
        except FileNotFoundError:
            return False
        return True

    def remove_owned(self, owned: Callable[[int], bool], names: tuple[str, ...]) -> list[str]:
        """What users leave in the places all share: entries of theirs, or called like them. Returns what went."""
        gone = []
        for top in (*SHARED, *NAMED):
            try:
                with self._all.parent(f"{top}/any") as (directory, _):
                    for name in _names(directory):
                        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                        if owned(found.st_uid) or (top in NAMED and name in names):
                            remove_at(directory, name, f"an entry of {top}")
                            gone.append(f"{top}/{name!a}")
            except (FileNotFoundError, NotADirectoryError):
                continue
        return gone

    def remove_journals(self, uids: Iterable[int]) -> None:
        """What journald keeps for users by themselves."""
        starts = tuple(f"user-{uid}{end}" for uid in uids for end in ".@")
        for folder in JOURNALS:
            for machine in sorted((self._root / folder.lstrip("/")).glob("*")):
                with (
                    contextlib.suppress(FileNotFoundError, NotADirectoryError),
                    self._all.parent(f"{folder}/{machine.name}/any") as (directory, _),
                ):
                    for name in [name for name in _names(directory) if name.startswith(starts)]:
                        remove_at(directory, name, f"a journal below {folder}")

    def mounts_below(self, path: str) -> list[str]:
        """Mount points at `path` and below it, the innermost first."""
        table = (own_proc(self._root) / "mountinfo").read_text("utf-8", "surrogateescape")
        found = [mount.path for mount in parse_mounts(table) if within(mount.path, path)]
        return list(reversed(found))

    def unmount(self, path: str) -> None:
        """Never lazily: a file system that is still used is not gone. Raises `busy` with who uses it."""
        if self._root != Path("/"):
            raise error("incompatible", f"{path} is a mount of another machine, which only its own agent can release")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(os.fsencode(path), _UMOUNT_NOFOLLOW) == 0:
            return
        number = ctypes.get_errno()
        if number == errno.EBUSY:
            held = ", ".join(self.holders(path)[:5]) or "the kernel itself"
            raise error("busy", f"{path} cannot be unmounted: it is held by {held}")
        raise error("file_error", f"{path} cannot be unmounted: {os.strerror(number)}")

    def holders(self, path: str) -> list[str]:
        """Processes that stand in `path`, or keep a file of it open."""
        found = []
        for process in sorted(self._root.glob("proc/[0-9]*"), key=lambda p: int(p.name)):
            if any(within(target, path) for target in _held(process)):
                with contextlib.suppress(OSError):
                    found.append(f"{(process / 'comm').read_text().strip()!r} (process {process.name})")
        return found


def _names(fd: int) -> list[str]:
    return os.listdir(fd)


def _held(process: Path) -> Iterator[str]:
    links = [process / "cwd", process / "root", process / "exe"]
    with contextlib.suppress(OSError):
        links += list((process / "fd").iterdir())
    for link in links:
        with contextlib.suppress(OSError):
            yield os.readlink(link)  # noqa: PTH115  # the text, not a path to follow
