"""Starts programs from a thread that has given up everything they do not need. Standard library only.

On Linux credentials, Landlock and system call filters belong to a thread, and a child has those of the thread that
started it. So a thread gives them up for good and starts what is to run behind the same walls; the helper around it
stays what it was, and the cheap vfork path of posix_spawn stays too. What every command is held to, the helper
itself is held to: no new privileges, and none of the calls that no command needs.
"""

import _thread
import ctypes
import os
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


class Unconfined(Exception):
    """The walls do not stand, so nothing was started."""


class Confined:
    """A thread behind walls that starts one program after the other for whoever made it.

    Attributes:
        listener: descriptor that shows calls which write, or -1.
        landlock_abi: the kernel's version; 0 where writes are not held.
    """

    def __init__(self, user: User | None, walls: Walls) -> None:
        """Raises `Unconfined` when the kernel refused one of the walls."""
        self._key = user, walls, _places(walls)
        self._work: Callable[[], int] | None = None
        self._result: int | BaseException = 0
        self._go, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self.listener, self.landlock_abi = -1, 0
        _thread.start_new_thread(self._run, (user, walls))
        self._answer()

    def fits(self, user: User | None, walls: Walls) -> bool:
        """Whether its walls are these, and stand where these would: a folder made anew is another one."""
        return self._key == (user, walls, _places(walls))

    def start(self, spawn: Callable[[], int]) -> int:
        """The process id that `spawn` gives, run behind the walls. Raises what it raises."""
        self._work = spawn
        self._go.release()
        return self._answer()

    def close(self) -> None:
        """Ends the thread. What it has started stays behind the walls."""
        self._work = None
        self._go.release()
        if self.listener >= 0:
            os.close(self.listener)

    def _answer(self) -> int:
        self._done.acquire()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _run(self, user: User | None, walls: Walls) -> None:
        try:
            self.landlock_abi, self.listener = _confine(user, walls)
        except OSError as err:
            self._result = Unconfined(err.strerror or str(err))
            self._done.release()
            return
        while True:
            self._done.release()
            self._go.acquire()
            if self._work is None:
                return
            try:
                self._result = self._work()
            except BaseException as err:  # noqa: BLE001 - handed to the one who waits
                self._result = err


def _places(walls: Walls) -> tuple[tuple[int, int] | None, ...]:
    """Which folders the declared paths are now."""
    return tuple(_place(path) for path in walls.writes or ())


def _place(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _confine(user: User | None, walls: Walls) -> tuple[int, int]:
    """Landlock's version and the listener, once the calling thread is behind the walls."""
    kind = seccomp.machine()
    watched = walls.writes is not None
    version = made = 0
    if user is not None:
        _become(kind, *user)
    if walls.writes is not None:
        version = landlock.restrict_writes(walls.writes)
    if watched or not walls.network:
        made = seccomp.install(kind, seccomp.declared(kind, walls.network, watched), listener=watched)
    return version, made if watched else -1


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
