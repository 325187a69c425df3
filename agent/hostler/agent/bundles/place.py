"""A verified bundle as a tree that nobody writes to. Blocking."""

import os
import shutil
import stat
import threading
from pathlib import Path

from hostler.agent.bundles.contract import BundleSettings
from hostler.agent.host.files import write_error
from hostler.agent.host.swap import sync_file_system
from hostler.base.errors import error

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(descriptor: int, scratch: Path, settings: BundleSettings, stop: threading.Event) -> int:
    """The plain tar behind `descriptor` into a fresh directory; → bytes that it takes.

    Raises:
        HostlerError: `unsafe_archive`, `too_large`, `bad_response`, `disk_full`, `canceled`, `file_error`.
    """
    from hostler.agent.oci.unpack import PLAIN, Budget, Unpacker

    remove(scratch)
    try:
        scratch.mkdir(mode=0o700)
    except OSError as err:
        raise write_error(f"the bundle {scratch.stem}", err) from err
    root = os.open(scratch, _FOLDER)

    def check() -> None:
        if stop.is_set():
            raise error("canceled", "nobody waits for the bundle any more")
        found = os.fstatvfs(root)
        if found.f_bavail * found.f_frsize < settings.reserve_bytes:
            raise error("disk_full", f"a bundle needs room, and {settings.reserve_bytes} bytes stay reserved")

    budget = Budget(most_bytes=settings.unpacked_bytes, most_entries=settings.entries, check=check)
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        Unpacker(root, budget, whiteouts=False).layer(descriptor, PLAIN[0])
        _seal(root)
    except BaseException:
        remove(scratch)
        raise
    finally:
        os.close(root)
    return budget.bytes


def put(scratch: Path, tree: Path) -> None:
    """By one rename, after everything is on disk. Raises `OSError`."""
    folder = os.open(tree.parent, _FOLDER)
    try:
        sync_file_system(folder)
        scratch.rename(tree)
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Whatever is left of a tree; what cannot go now goes at the next start."""
    if not path.exists():
        return
    for _, _, _, descriptor in os.fwalk(path):
        os.fchmod(descriptor, 0o700)  # who is not root cannot empty what it may not write
    shutil.rmtree(path, ignore_errors=True)


def _seal(root: int) -> None:
    """Readable by whoever a task runs as, writable by nobody."""
    for _, _, files, descriptor in os.fwalk(".", dir_fd=root):
        for name in files:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                runs = 0o111 if found.st_mode & 0o100 else 0
                os.chmod(name, 0o444 | runs, dir_fd=descriptor)
        os.fchmod(descriptor, 0o555)
