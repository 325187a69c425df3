"""Ends processes of users that have to leave, and of nobody else.

A process is held by a descriptor of its directory in /proc, its user is read through that descriptor, and the
signal goes through it too (pidfd_send_signal): no other process can get it, even where the number was given away
meanwhile, and a directory that is no /proc gets none at all.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from hostler.agent.host.accounts import LOWEST_UID, NOBODY, check_uid

ROUND_S = 0.05
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Running(NamedTuple):
    pid: int
    uid: int
    name: str
    state: str

    def __str__(self) -> str:
        return f"{self.name!r} (process {self.pid} of user id {self.uid}, state {self.state})"


class Uids:
    """The user ids that have to leave. Raises `user_protected` for one of the system."""

    def __init__(self, uids: Collection[int], ranges: Collection[range] = ()) -> None:
        for uid in uids:
            check_uid(uid, str(uid))
        self._uids = frozenset(uids)
        self._ranges = tuple(r for r in ranges if r.start >= LOWEST_UID and NOBODY not in r)

    def __contains__(self, uid: int) -> bool:
        return uid in self._uids or any(uid in each for each in self._ranges)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._uids))


class Eviction:
    """The door. Methods block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._proc = root / "proc"

    def running(self, uids: Uids) -> list[Running]:
        """Theirs that live; the dead that nobody has waited for do not count."""
        return [process for process, _ in self._theirs(uids)]

    def end(self, uids: Uids, within_s: float) -> list[Running]:
        """SIGKILL, again and again until none is left or the time is up; what is left then hangs in the kernel.

        Their control groups are told first, so that what forks quickly does not outrun us.
        """
        until = time.monotonic() + within_s
        for uid in uids:
            self._end_slice(uid)
        told: set[int] = set()
        while True:
            found = set()
            for process, fd in self._theirs(uids):
                found.add(process.pid)
                with contextlib.suppress(ProcessLookupError):
                    send(fd, signal.SIGKILL)
            if not found:
                return []
            if found <= told:  # nobody new: what is left takes its time to die
                time.sleep(ROUND_S)
            if time.monotonic() >= until:
                return self.running(uids)
            told = found

    def _end_slice(self, uid: int) -> None:
        at = self._root / f"sys/fs/cgroup/user.slice/user-{uid}.slice"
        for name, word in (("pids.max", "0"), ("cgroup.kill", "1")):
            with contextlib.suppress(OSError):
                fd = os.open(at / name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    os.write(fd, word.encode())
                finally:
                    os.close(fd)

    def _theirs(self, uids: Uids) -> Iterator[tuple[Running, int]]:
        """Each with a descriptor that is good until the next one is asked for."""
        try:
            names = [entry.name for entry in self._proc.iterdir() if entry.name.isdigit()]
        except OSError:
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
                fd = os.open(self._proc / name, _OPEN)
                try:
                    found = _status(fd, int(name))
                    if found is not None and found.uid in uids:
                        yield found, fd
                finally:
                    os.close(fd)


def send(fd: int, number: signal.Signals) -> None:
    """To the very process whose /proc directory `fd` is."""
    signal.pidfd_send_signal(fd, number)


def _status(directory: int, pid: int) -> Running | None:
    """Who it is, by its real user id, which a setuid program does not change; `None` for the dead."""
    fd = os.open("status", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        text = os.read(fd, 65_536).decode("utf-8", "replace")
    finally:
        os.close(fd)
    values = dict(line.partition(":")[::2] for line in text.splitlines())
    state = values.get("State", "").strip()[:1]
    uids = tuple(int(word) for word in values.get("Uid", "").split())
    if state in ("Z", "X") or len(uids) != 4:
        return None
    return Running(pid, uids[0], values.get("Name", "").strip(), state)
