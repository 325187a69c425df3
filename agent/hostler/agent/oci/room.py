"""The private directory beside a final place in which everything is gathered and built, until one rename.

It outlives a crash: verified blobs in it are found again by hashing them. Only one step at a time has it.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator

from hostler.agent.host.swap import exchange, sync_file_system
from hostler.base.errors import HostlerError, StepFailed, error
from hostler.pki.archive import OURS

BLOBS, TREE = "blobs/sha256", "tree"
MARKER = f"{OURS}placed.json"
MARKER_BYTES = 4096
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


# Ends after which what was gathered is of no use to anyone. After the others it waits for the next try.
WORTHLESS = frozenset(
    {"digest_mismatch", "size_mismatch", "too_large", "bad_range", "bad_response", "unsafe_archive", "canceled"}
)


class Taken(StepFailed):
    """Another step is at the same artifact: `file_error`."""


@contextlib.contextmanager
def workroom(parent: int, final: str, digest: str) -> Iterator["Room"]:
    """Raises `Taken` where another step has it, `path_denied` where something else stands under its name."""
    key = hashlib.sha256(f"{final}\0{digest}".encode()).hexdigest()[:16]
    room = Room(parent, f"{OURS}oci-{key}")
    try:
        yield room
    except HostlerError as err:
        if err.code in WORTHLESS:
            room.discard()
        raise
    finally:
        room.close()


class Room:
    def __init__(self, parent: int, name: str) -> None:
        self._parent, self.name = parent, name
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        try:
            self.descriptor = os.open(name, _OPEN, dir_fd=parent)
        except OSError as err:
            raise error("path_denied", f"{name} is not a directory of ours") from err
        try:
            found = os.fstat(self.descriptor)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise error("path_denied", f"{name} belongs to somebody else")
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self.descriptor).st_nlink:  # whoever had it took it away while we came in
                raise BlockingIOError
        except BlockingIOError as err:
            self.close()
            raise Taken("file_error", "the same artifact is being put there by another step") from err
        except HostlerError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.descriptor)

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of a directory in here, made where it is missing."""
        fd = os.dup(self.descriptor)
        try:
            for part in path.split("/"):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
                below = os.open(part, _OPEN, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def empty(self, name: str) -> None:
        """Removes a directory in here, whatever it holds."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(name, dir_fd=self.descriptor)

    def free(self, reserve: int, more: int = 0) -> None:
        """Raises `disk_full` when less than `reserve` bytes would be left."""
        found = os.fstatvfs(self.descriptor)
        free = found.f_bavail * found.f_frsize
        if free - more < reserve:
            raise error("disk_full", f"{free} bytes are free, {more} are to come and {reserve} stay reserved")

    def place(self, final: str) -> None:
        """The built tree takes the final name, in one step; what stood there before goes. Call `may_replace` first.

        Raises:
            HostlerError: `file_error`.
        """
        try:
            sync_file_system(self.descriptor)
            try:
                os.rename(TREE, final, src_dir_fd=self.descriptor, dst_dir_fd=self._parent)
            except OSError as err:
                if err.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                exchange(self.descriptor, TREE, self._parent, final)
            os.fsync(self._parent)
        except OSError as err:
            raise error("file_error", f"{final} cannot be put in place: {err.strerror}") from err
        self.empty(TREE)

    def discard(self) -> None:
        """Nothing of it is left."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.name, dir_fd=self._parent)


def sweep(parent: int, before_s: float) -> None:
    """Removes rooms in which nobody is, and nobody was since then (Unix seconds): of tries that were not made again."""
    for name in [entry.name for entry in os.scandir(parent) if entry.name.startswith(f"{OURS}oci-")]:
        try:
            room = Room(parent, name)
        except HostlerError:
            continue  # somebody is there, or it is none
        try:
            touched_s = os.fstat(room.descriptor).st_mtime
            with contextlib.suppress(FileNotFoundError):
                touched_s = max(touched_s, os.stat(BLOBS, dir_fd=room.descriptor).st_mtime)
            if touched_s < before_s:
                room.discard()
        finally:
            room.close()


def may_replace(parent: int, final: str, path: str) -> None:
    """Raises `path_denied` unless there is nothing, an empty directory, or one that was put there this way: a path of
    the inputs must not get to remove a directory of somebody else."""
    try:
        fd = os.open(final, _OPEN, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as err:
        raise error("path_denied", f"{path} is there and is no directory") from err
    try:
        names = [entry.name for entry in os.scandir(fd)]
    finally:
        os.close(fd)
    if names and MARKER not in names:
        raise error("path_denied", f"{path} holds files that were not put there by this step kind")
