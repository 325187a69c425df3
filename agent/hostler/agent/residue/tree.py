"""One walk over every local file system: what gives rights, or lies where nothing of the system does."""

import contextlib
import os
import stat
from collections.abc import Iterator

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Entry, Reader
from hostler.agent.residue.storage import Mounted

CAPABILITIES = "security.capability"
# Kernel views and what lies on other machines; the places they are mounted at are compared by themselves.
_NOT_LOCAL = frozenset(
    """proc sysfs cgroup cgroup2 devpts devtmpfs securityfs debugfs tracefs bpf fusectl configfs mqueue hugetlbfs
    autofs pstore efivarfs binfmt_misc rpc_pipefs nsfs selinuxfs nfs nfs4 cifs smb3 ceph lustre gpfs beegfs 9p
    squashfs iso9660 ramfs""".split()  # noqa: SIM905 - a list of words reads better
)


def collect(reader: Reader, mounts: tuple[Mounted, ...], ignored: tuple[str, ...]) -> Iterator[Item]:
    """Raises `Exhausted`, OSError."""
    left_out = tuple(path.encode() for path in ignored)
    seen: set[tuple[int, int]] = set()
    for top in local_tops(mounts):
        try:
            status = (reader.root / top.lstrip("/")).stat()
        except FileNotFoundError:
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue  # the same tree once more, by a bind mount
        seen.add((status.st_dev, status.st_ino))
        for entry in reader.walk(top, lambda path: any(path == o or path.startswith(o + b"/") for o in left_out)):
            yield from items_of(entry)


def local_tops(mounts: tuple[Mounted, ...]) -> list[str]:
    """ "/" always, then every mounted local file system; layers of containers are compared as containers."""
    found = {"/": None}
    for mount in mounts:
        inner = mount.fs_type == "overlay" and mount.path != "/"
        if mount.fs_type not in _NOT_LOCAL and not inner and not mount.fs_type.startswith("fuse"):
            found[mount.path] = None
    return list(found)


def items_of(entry: Entry) -> Iterator[Item]:
    mode = entry.status.st_mode
    owner = f"{stat.filemode(mode)} {entry.status.st_uid}:{entry.status.st_gid}"
    if stat.S_ISREG(mode):
        if mode & (stat.S_ISUID | (stat.S_ISGID if mode & 0o010 else 0)):
            yield Item("setuid_file", plain(entry.path), f"{owner} {entry.status.st_size} bytes")
        if mode & 0o111:
            yield from _capabilities(entry)
        if mode & 0o002:
            yield Item("world_writable", plain(entry.path), owner)
    elif stat.S_ISDIR(mode) and mode & 0o002 and not mode & stat.S_ISVTX:
        yield Item("world_writable", plain(entry.path), owner)
    elif (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)) and entry.status.st_rdev:  # 0:0 is how overlays delete
        device = f"{os.major(entry.status.st_rdev)}:{os.minor(entry.status.st_rdev)}"
        yield Item("device_node", plain(entry.path), f"{owner} {device}")


def _capabilities(entry: Entry) -> Iterator[Item]:
    """By descriptor: there is no call that takes a directory and a name."""
    with contextlib.suppress(OSError):
        fd = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry.directory)
        try:
            value = os.getxattr(fd, CAPABILITIES)
            yield Item("capability_file", plain(entry.path), value.hex())
        finally:
            os.close(fd)
