"""Landlock: where the calling thread, and all it will start, may write. Standard library only."""

import ctypes
import os
import struct
from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _TRUNCATE, _IOCTL_DEV = 1 << 1, 1 << 14, 1 << 15
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13
# What a command may always write to.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The kernel's version of Landlock; 0 without it."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _VERSION)))


def handled(version: int) -> int:
    """Every right to change something that this version knows."""
    rights = _WRITE_FILE | _MAKE_AND_REMOVE
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        rights |= right if version >= since else 0
    return rights


def restrict_writes(writable: Iterable[str]) -> int:
    """From now on this thread changes nothing outside `writable` and the usual devices. Needs no_new_privs.

    A path that is not there gives no right: it cannot be made later either.

    Returns:
        The kernel's Landlock version.

    Raises:
        OSError: the kernel has no Landlock.
    """
    version = abi()
    if version < 1:
        raise OSError(ctypes.get_errno(), "the kernel has no Landlock")
    rights = handled(version)
    ruleset = int(_libc.syscall(_CREATE, struct.pack("=Q", rights), 8, 0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "no Landlock ruleset can be made")
    try:
        for path in writable:
            _allow(ruleset, path, rights)
        for path in DEVICES:
            _allow(ruleset, path, rights & (_WRITE_FILE | _TRUNCATE | _IOCTL_DEV))
        if _libc.syscall(_RESTRICT, ruleset, 0) != 0:
            raise OSError(ctypes.get_errno(), "Landlock does not take hold")
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib is heavy here
            rights &= _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
        if _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, beneath), 0) != 0:
            raise OSError(ctypes.get_errno(), f"Landlock cannot allow {path}")
    finally:
        os.close(beneath)
