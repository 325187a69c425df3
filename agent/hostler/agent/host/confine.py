"""Starts a program from a thread that has given up everything it does not need. Standard library only.

On Linux credentials, Landlock and system call filters belong to a thread, and a child has those of the thread that
started it. So the thread gives them up for good, starts the program and ends; the helper around it stays what it
was, and the cheap vfork path of posix_spawn stays too. What every command is held to, the helper itself is held to:
no new privileges, and none of the calls that no command needs.
"""

import _thread
import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from hostler.agent.host import landlock, seccomp

User = tuple[int, int, list[int]]  # uid, gid, supplementary groups
_PR_SET_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)


class Walls(NamedTuple):
    """What a command may do, as the order says it.

    Attributes:
        writes: where it may write; None where it did not say, and is not held to it.
        network: sockets beyond this machine's own.
        allowed: groups of system calls that are otherwise denied; its helper was started with the same.
    """

    writes: tuple[str, ...] | None
    network: bool
    allowed: frozenset[str]

    @classmethod
    def of(cls, order: dict[str, Any]) -> "Walls":
        writes = order["writes"]
        return cls(None if writes is None else tuple(writes), order["network"], frozenset(order["syscalls"]))


UNDECLARED = Walls(None, True, frozenset())


class Started(NamedTuple):
    """`listener`: descriptor that shows calls which write, or -1. `landlock_abi`: 0 where writes are not held."""

    pid: int
    listener: int
    landlock_abi: int


class Unconfined(Exception):
    """The walls do not stand, so nothing was started."""


def start(spawn: Callable[[], int], user: User | None, walls: Walls) -> Started:
    """Runs `spawn` behind the walls, as the user.

    Raises:
        Unconfined: the kernel refused one of the walls.
        OSError: what `spawn` raised.
    """
    done = _thread.allocate_lock()
    done.acquire()
    outcome: list[Started | BaseException] = []

    def run() -> None:
        try:
            outcome.append(_start(spawn, user, walls))
        except BaseException as err:  # noqa: BLE001 - handed to the one who waits
            outcome.append(err)
        finally:
            done.release()

    _thread.start_new_thread(run, ())
    done.acquire()
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def _start(spawn: Callable[[], int], user: User | None, walls: Walls) -> Started:
    watched = walls.writes is not None
    listener, version = -1, 0
    try:
        kind = seccomp.machine()
        if user is not None:
            _become(kind, *user)
        if walls.writes is not None:
            version = landlock.restrict_writes(walls.writes)
        if watched or not walls.network:
            made = seccomp.install(kind, seccomp.declared(kind, walls.network, watched), listener=watched)
            listener = made if watched else -1
    except OSError as err:
        raise Unconfined(err.strerror or str(err)) from err
    return Started(spawn(), listener, version)


def settle(allowed: frozenset[str]) -> None:
    """Puts this whole process, and all it will start, behind the walls that no command is without.

    Raises:
        Unconfined: the kernel refused one.
    """
    try:
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
        kind = seccomp.machine()
        seccomp.install(kind, seccomp.baseline(kind, allowed), listener=False)
    except OSError as err:
        raise Unconfined(err.strerror or str(err)) from err


def _become(kind: seccomp.Machine, uid: int, gid: int, groups: list[int]) -> None:
    """By bare system calls: the C library would change every thread."""
    listed = struct.pack(f"={len(groups)}I", *groups)
    for call, arguments in (
        ("setgroups", (len(groups), listed)),
        ("setresgid", (gid, gid, gid)),
        ("setresuid", (uid, uid, uid)),
    ):
        if _libc.syscall(kind.calls[call], *arguments) != 0:
            raise OSError(ctypes.get_errno(), f"{call} failed")
