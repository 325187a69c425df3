"""Every path a task names: beneath the root, without symbolic links, replaced atomically.

A path is walked one component at a time with O_NOFOLLOW from a descriptor of the root, which is what
openat2 does with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, on every kernel. Nothing is ever opened by
its full name, so no component can be swapped between the check and the use (J1).
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from hostler.base.errors import HostlerError, error

MAX_PATH = 4096
CHUNK_BYTES = 1024 * 1024
TEMPORARY = ".hostler-"
_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A regular file as it stands, or that there is none."""

    path: str
    exists: bool = False
    sha256: str = ""  # filled in only where the content was read
    size_bytes: int = 0
    mode: str = ""  # four octal digits
    uid: int = -1
    gid: int = -1


class Stopped(Exception):
    """Hashing was told to stop."""


class Files:
    """The door. Methods block; call those that read much from a worker thread."""

    def __init__(
        self, root: Path, write_prefixes: tuple[str, ...] = ("/",), deny_prefixes: tuple[str, ...] = ()
    ) -> None:
        self._root = root
        self._write_prefixes = write_prefixes
        self._deny_prefixes = deny_prefixes

    def may_write(self, path: str) -> None:
        """Raises `path_denied` unless the path is plain and inside the allowed prefixes."""
        components(path)
        if not any(within(path, prefix) for prefix in self._write_prefixes):
            raise error("path_denied", f"{path} lies outside the prefixes this node allows")
        denied = next((prefix for prefix in self._deny_prefixes if within(path, prefix)), None)
        if denied is not None:
            raise error("path_denied", f"{path} lies in {denied}, which this node keeps to itself")

    @contextlib.contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that holds `path`, and the last component.

        Args:
            make: for writing: checks the allowed prefixes and creates missing directories, mode 0755.

        Raises:
            HostlerError: `path_denied` outside the prefixes or at a symbolic link, `file_error` at
                anything else in the way.
            FileNotFoundError: when a directory is missing and `make` is not set.
        """
        if make:
            self.may_write(path)
        *directories, name = components(path)
        try:
            fd = self._walk(directories, path, make=make)
        except PermissionError as err:
            raise error("file_error", f"the directory of {path} may not be entered") from err
        try:
            yield fd, name
        finally:
            os.close(fd)

    def _walk(self, directories: list[str], path: str, *, make: bool) -> int:
        fd = os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in directories:
                below = _enter(fd, part, path, make=make)
                os.close(fd)
                fd = below
            return os.open(".", _LIST, dir_fd=fd)  # one that can be listed and synced
        finally:
            os.close(fd)

    def stat(self, path: str) -> os.stat_result | None:
        """Of whatever stands there, a symbolic link itself included; `None` when nothing does."""
        try:
            with self.parent(path) as (directory, name):
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def info(self, path: str) -> FileInfo:
        """Raises `path_denied` where something that is not a regular file stands."""
        try:
            with self.parent(path) as (directory, name):
                return _info(path, _status(directory, name, path))
        except FileNotFoundError:
            return FileInfo(path=path)

    def read(self, path: str, limit: int) -> bytes:
        """The content. Raises `file_error` when absent, `too_large` beyond `limit` bytes."""
        with self.open(path) as fd:
            content = _read_up_to(fd, limit + 1)
        if len(content) > limit:
            raise error("too_large", f"{path} is longer than {limit} bytes")
        return content

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file, for reading."""
        try:
            with self.parent(path) as (directory, name):
                fd = _open_regular(directory, name, path)
        except FileNotFoundError as err:
            raise error("file_error", f"{path} does not exist") from err
        try:
            yield fd
        finally:
            os.close(fd)

    def digest(
        self,
        path: str,
        *,
        progress: Callable[[int, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> FileInfo:
        """The file's state with its SHA-256. Raises `Stopped` soon after `stop()` turns true."""
        with self.open(path) as fd:
            status = os.fstat(fd)
            digest, done, buffer = hashlib.sha256(), 0, bytearray(CHUNK_BYTES)
            view = memoryview(buffer)
            while count := os.readv(fd, [buffer]):
                digest.update(view[:count])
                done += count
                if stop is not None and stop():
                    raise Stopped
                if progress is not None:
                    progress(done, status.st_size)
        return msgspec.structs.replace(_info(path, status), sha256=digest.hexdigest(), size_bytes=done)

    def sha256(self, path: str) -> str:
        """Hex SHA-256 of the content."""
        return self.digest(path).sha256

    def write(
        self,
        path: str,
        content: bytes,
        *,
        mode: int = 0o644,
        uid: int = -1,
        gid: int = -1,
        make_parents: bool = False,
    ) -> FileInfo:
        """Replaces or creates a file: whoever looks sees the old one or the new one, never a mixture (K7).

        Returns:
            The file's new state.

        Raises:
            HostlerError: `path_denied`, `file_error`, `disk_full`.
        """
        self.may_write(path)
        try:
            with self.parent(path, make=make_parents) as (directory, name):
                _status(directory, name, path)
                with _temporary(directory, name) as (fd, temporary):
                    _fill(fd, content, mode, uid, gid)
                    self._still_there(path, directory)
                    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                    status = os.fstat(fd)
                os.fsync(directory)
        except FileNotFoundError as err:
            raise error("file_error", f"the directory of {path} does not exist") from err
        except OSError as err:
            raise write_error(path, err) from err
        return msgspec.structs.replace(_info(path, status), sha256=hashlib.sha256(content).hexdigest())

    def _still_there(self, path: str, directory: int) -> None:
        """Refuses when the directory was moved away or replaced while the file was written."""
        with self.parent(path) as (now, _):
            if not os.path.sameopenfile(now, directory):
                raise error("path_denied", f"the directory of {path} was replaced meanwhile")


def components(path: str) -> list[str]:
    """Raises `path_denied` for anything but a plain absolute path of a file."""
    parts = path.split("/")[1:]
    plain = path.startswith("/") and len(path) <= MAX_PATH and path.isprintable()
    if not plain or any(part in ("", ".", "..") for part in parts):
        raise error("path_denied", f"{path[:200]!r} is not a plain absolute path")
    return parts


def within(path: str, prefix: str) -> bool:
    """Whether `path` is `prefix` or lies below it; a prefix ends at a '/' boundary."""
    bare = prefix.rstrip("/")
    return path == bare or path.startswith(bare + "/")


def _enter(directory: int, part: str, path: str, *, make: bool) -> int:
    try:
        return os.open(part, _WALK, dir_fd=directory)
    except NotADirectoryError as err:
        raise _in_the_way(directory, part, path) from err
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=directory)
    fd = os.open(part, _LIST | os.O_NOFOLLOW, dir_fd=directory)
    os.fchmod(fd, 0o755)  # whatever the umask
    return fd


def _in_the_way(directory: int, part: str, path: str) -> HostlerError:
    mode = os.stat(part, dir_fd=directory, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return error("path_denied", f"{part!r} in {path} is a symbolic link")
    return error("file_error", f"{part!r} in {path} is no directory")


def _status(directory: int, name: str, path: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise error("path_denied", f"{path} is {what}")
    return status


def _open_regular(directory: int, name: str, path: str) -> int:
    if _status(directory, name, path) is None:
        raise FileNotFoundError(name)
    try:
        fd = os.open(name, _READ, dir_fd=directory)
    except OSError as err:
        raise error("file_error", f"{path} cannot be read: {err.strerror}") from err
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise error("path_denied", f"{path} is no regular file")
    return fd


def _info(path: str, status: os.stat_result | None) -> FileInfo:
    if status is None:
        return FileInfo(path=path)
    return FileInfo(
        path=path,
        exists=True,
        size_bytes=status.st_size,
        mode=f"{stat.S_IMODE(status.st_mode):04o}",
        uid=status.st_uid,
        gid=status.st_gid,
    )


def _read_up_to(fd: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0 and (part := os.read(fd, min(count, CHUNK_BYTES))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


@contextlib.contextmanager
def _temporary(directory: int, name: str) -> Iterator[tuple[int, str]]:
    """A locked new file beside the target. Unlocked ones of the same target are left from a crash."""
    stem = TEMPORARY + hashlib.sha256(name.encode()).hexdigest()[:12] + "-"
    _remove_leftovers(directory, stem)
    temporary = stem + secrets.token_hex(6)
    fd = os.open(temporary, _CREATE, 0o600, dir_fd=directory)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd, temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        os.close(fd)


def _remove_leftovers(directory: int, stem: str) -> None:
    for name in [name for name in os.listdir(directory) if name.startswith(stem)]:
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            fd = os.open(name, _READ, dir_fd=directory)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=directory)
            finally:
                os.close(fd)


def _fill(fd: int, content: bytes, mode: int, uid: int, gid: int) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fchown(fd, uid, gid)
    os.fchmod(fd, mode)  # after the owner, which may clear bits
    os.fsync(fd)


def write_error(path: str, err: OSError) -> HostlerError:
    """`disk_full`, `file_error`."""
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return error("disk_full", f"there is no room to write {path}")
    return error("file_error", f"{path} cannot be written: {err.strerror}")
