"""Directories as a step kind may make, lock, point to and remove them; beneath the root, links never followed.

The same rules as `files`: inside the allowed prefixes, no symbolic link on the way (J1).
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from hostler.agent.host.files import TEMPORARY, Files
from hostler.base.errors import error

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Trees:
    """The door. Methods block; `remove` and `settle` may take long."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files

    def real(self, path: str) -> str:
        """Where it lies for commands, which know no root."""
        return str(self._root / path.lstrip("/"))

    def make(self, path: str) -> None:
        """An empty directory, mode 0755, and what is missing above it.

        Raises:
            HostlerError: `path_denied`; `file_error` when something stands there.
        """
        with self._files.parent(path, make=True) as (directory, name):
            try:
                os.mkdir(name, 0o755, dir_fd=directory)
            except FileExistsError as err:
                raise error("file_error", f"{path} exists already") from err
            except OSError as err:
                raise _failed(path, err) from err
            fd = os.open(name, _OPEN, dir_fd=directory)
            try:
                os.fchmod(fd, 0o755)  # whatever the umask
            finally:
                os.close(fd)

    def remove(self, path: str) -> None:
        """The tree, if it is there. A symbolic link in it is removed, never followed."""
        self._files.may_write(path)
        with contextlib.suppress(FileNotFoundError), self._files.parent(path) as (directory, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)

    def names(self, path: str) -> list[str]:
        """What lies in it; nothing where it is not."""
        try:
            with self._files.parent(f"{path}/x") as (directory, _), os.scandir(directory) as found:
                return sorted(entry.name for entry in found)
        except FileNotFoundError:
            return []

    def target(self, path: str) -> str:
        """Where a symbolic link points to; "" where there is none."""
        try:
            with self._files.parent(path) as (directory, name):
                return os.readlink(name, dir_fd=directory)
        except FileNotFoundError:
            return ""
        except OSError as err:
            if err.errno == errno.EINVAL:
                return ""
            raise

    def point(self, path: str, target: str) -> None:
        """Makes `path` a link to `target`, which lies beside it: whoever looks sees the old one or the new one.

        Raises:
            HostlerError: `path_denied` when something that is no link stands there.
        """
        self._files.may_write(path)
        if "/" in target or target in ("", ".", ".."):
            raise error("path_denied", f"{target!r} does not lie beside {path}")
        with self._files.parent(path) as (directory, name):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                    raise error("path_denied", f"{path} is no symbolic link")
            temporary = f"{TEMPORARY}{secrets.token_hex(6)}"
            os.symlink(target, temporary, dir_fd=directory)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[None]:
        """Keeps everybody else who asks out of a directory, which is made if need be.

        Raises:
            HostlerError: `file_error` when somebody else holds it.
        """
        with self._files.parent(f"{path}/x", make=True) as (directory, _):
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as err:
                raise error("file_error", f"another step works in {path} at the moment") from err
            yield

    @staticmethod
    def settle() -> None:
        """Waits until everything written so far is on the disk."""
        os.sync()


def _failed(path: str, err: OSError) -> Exception:
    code = "disk_full" if err.errno in (errno.ENOSPC, errno.EDQUOT) else "file_error"
    return error(code, f"{path} cannot be made: {err.strerror}")
