"""Files by where they lie: what runs by itself, what decides who may do what, and what a tenant may drop.

Contents are compared by digest, so a baseline holds none of them.
"""

import functools
import os
import stat
from collections.abc import Iterator
from typing import Literal, NamedTuple

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Entry, Exhausted, Reader, read_at
from hostler.base.digest import sha256_hex

HASHED_BYTES = 1024 * 1024  # of one file; a longer one is known by size, times and inode
HASHED_TOTAL = 256 * 1024 * 1024


class Place(NamedTuple):
    """`how`: content by digest; or size and times, for programs; or only that it is there."""

    path: str
    kind: str
    how: Literal["content", "stamp", "presence"] = "content"


# The longest path that fits names the kind.
PLACES = (
    Place("/etc", "configuration_file"),
    Place("/etc/cron.d", "cron_job"),
    Place("/etc/cron.daily", "cron_job"),
    Place("/etc/cron.hourly", "cron_job"),
    Place("/etc/cron.weekly", "cron_job"),
    Place("/etc/cron.monthly", "cron_job"),
    Place("/etc/crontab", "cron_job"),
    Place("/etc/anacrontab", "cron_job"),
    Place("/var/spool/cron", "cron_job"),
    Place("/var/spool/anacron", "cron_job", "presence"),
    Place("/var/spool/cron/atjobs", "at_job"),
    Place("/var/spool/at", "at_job"),
    Place("/etc/systemd/system", "system_unit"),
    Place("/run/systemd/system", "system_unit"),
    Place("/run/systemd/transient", "system_unit"),
    Place("/usr/lib/systemd/system", "system_unit", "stamp"),
    Place("/usr/local/lib/systemd", "system_unit"),
    Place("/etc/systemd/user", "user_unit"),
    Place("/usr/lib/systemd/user", "user_unit", "stamp"),
    Place("/etc/systemd/system-generators", "unit_generator"),
    Place("/usr/lib/systemd/system-generators", "unit_generator", "stamp"),
    Place("/etc/init.d", "boot_script"),
    Place("/etc/rc.local", "boot_script"),
    Place("/etc/profile", "login_script"),
    Place("/etc/profile.d", "login_script"),
    Place("/etc/bash.bashrc", "login_script"),
    Place("/etc/skel", "login_script"),
    Place("/etc/ld.so.preload", "preload"),
    Place("/etc/ld.so.conf.d", "preload"),
    Place("/etc/pam.d", "pam_rule"),
    Place("/etc/security", "pam_rule"),
    Place("/etc/polkit-1", "polkit_rule"),
    Place("/etc/udev", "udev_rule"),
    Place("/run/udev/rules.d", "udev_rule"),
    Place("/usr/lib/udev/rules.d", "udev_rule", "stamp"),
    Place("/etc/modules", "module_configuration"),
    Place("/etc/modules-load.d", "module_configuration"),
    Place("/etc/modprobe.d", "module_configuration"),
    Place("/etc/sysctl.d", "sysctl_file"),
    Place("/etc/sysctl.conf", "sysctl_file"),
    Place("/etc/environment", "environment_file"),
    Place("/etc/environment.d", "environment_file"),
    Place("/etc/default", "environment_file"),
    Place("/etc/apt", "package_hook"),
    Place("/etc/dpkg", "package_hook"),
    Place("/etc/ssh", "ssh_configuration"),
    Place("/etc/sudoers", "sudo_rule"),
    Place("/etc/sudoers.d", "sudo_rule"),
    Place("/etc/hosts.allow", "network_rule"),
    Place("/var/lib/systemd/linger", "linger", "presence"),
    Place("/var/mail", "mail", "presence"),
    Place("/tmp", "temporary_file", "presence"),  # noqa: S108
    Place("/var/tmp", "temporary_file", "presence"),  # noqa: S108
    Place("/dev/shm", "shared_memory", "presence"),  # noqa: S108
    Place("/dev/mqueue", "message_queue", "presence"),
    Place("/dev/hugepages", "huge_page_file", "presence"),
    Place("/home", "home_file", "presence"),
    Place("/root", "root_home_file", "stamp"),
    Place("/boot", "boot_file", "stamp"),
    Place("/opt", "program", "stamp"),
    Place("/usr/local", "program", "stamp"),
    Place("/usr/bin", "program", "stamp"),
    Place("/usr/sbin", "program", "stamp"),
    Place("/srv", "stored_file", "presence"),
    Place("/mnt", "stored_file", "presence"),
    Place("/media", "stored_file", "presence"),
)
# Accounts are compared line by line; the others change by themselves.
_ELSEWHERE = frozenset(
    b"/etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid /etc/passwd- /etc/shadow- /etc/group-"
    b" /etc/gshadow- /etc/.pwd.lock /etc/mtab /etc/adjtime /etc/resolv.conf /etc/ld.so.cache".split()
)


def collect(reader: Reader, ignored: tuple[str, ...]) -> Iterator[Item]:
    """Raises `Exhausted`, OSError."""
    tops = [place for place in PLACES if not any(_within(place.path, other.path) for other in PLACES)]
    left_out = tuple(path.encode() for path in ignored)
    hashed = _Hashed(HASHED_TOTAL)
    for top in tops:
        yield from _of_top(reader, top, left_out, hashed)


def _of_top(reader: Reader, top: Place, left_out: tuple[bytes, ...], hashed: "_Hashed") -> Iterator[Item]:
    def skip(path: bytes) -> bool:
        return path in _ELSEWHERE or any(path == one or path.startswith(one + b"/") for one in left_out)

    with reader.single(top.path) as entry:
        if entry is None or skip(entry.path):
            return
        if not stat.S_ISDIR(entry.status.st_mode):  # a file, or a link that somebody put in its place
            yield Item(top.kind, plain(entry.path), state(entry, top.how, hashed))
            return
    for entry in reader.walk(top.path, skip):
        place = place_of(entry.path)
        if not (stat.S_ISDIR(entry.status.st_mode) and entry.path == place.path.encode()):
            kind = _kind_by_name(place, entry.path)
            how = "content" if kind == "authorized_key" else place.how
            yield Item(kind, plain(entry.path), state(entry, how, hashed))


_EXACT = {place.path.encode(): place for place in PLACES}


def place_of(path: bytes) -> Place:
    """The innermost place that holds `path`, which lies in one."""
    return _EXACT.get(path) or _of_directory(path.rpartition(b"/")[0])


@functools.lru_cache(8192)
def _of_directory(path: bytes) -> Place:
    found = _EXACT.get(path)
    if found is None and path:
        return _of_directory(path.rpartition(b"/")[0])
    assert found is not None
    return found


def _within(path: str, prefix: str) -> bool:
    return path.startswith(prefix + "/")


def _kind_by_name(place: Place, path: bytes) -> str:
    """Timers, drop-ins, keys and what a home holds that runs by itself have kinds of their own."""
    if place.kind in ("system_unit", "user_unit"):
        if path.endswith(b".timer"):
            return "timer"
        return "unit_dropin" if b".d/" in path else place.kind
    if place.kind in ("home_file", "root_home_file"):
        if b"/.ssh/" in path:
            return "authorized_key" if path.rpartition(b"/")[2].startswith(b"authorized_keys") else "ssh_file"
        if b"/.config/systemd/user/" in path or b"/.local/share/systemd/user/" in path:
            return "timer" if path.endswith(b".timer") else "user_unit"
    return place.kind


class _Hashed:
    """How much content may still be read."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Exhausted("the watched files are too many to be read")


def state(entry: Entry, how: str, hashed: _Hashed) -> str:
    """What has to be the same for a thing to count as unchanged."""
    status = entry.status
    mode = f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"link to {plain(os.readlink(entry.name, dir_fd=entry.directory))}"
    if not stat.S_ISREG(status.st_mode) or how == "presence":
        return mode
    if how == "content" and status.st_size <= HASHED_BYTES:
        hashed.take(status.st_size)
        return f"{mode} sha256 {sha256_hex(read_at(entry.directory, entry.name, HASHED_BYTES + 4096))[:32]}"
    return f"{mode} {status.st_size} bytes, {status.st_mtime_ns}, {status.st_ctime_ns}, inode {status.st_ino}"
