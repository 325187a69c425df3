"""What is known of a command after a crash: one small file per run in the spool directory.

The helper writes `started` before the command and `exited` after it, so that the truth survives the
agent: no file means the command never ran, `started` alone that nobody saw its end. The files are not
fsynced, because that would cost every run as much as starting the process. Instead the spool
remembers since when the present boot lasts: a missing file says nothing about a task made before.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import time
from enum import StrEnum
from pathlib import Path

import msgspec

from hostler.base.clock import Clock
from hostler.base.errors import error

KEEP_MS = 7 * 24 * 3600 * 1000
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # of `hostler.base.ids`


class RunState(StrEnum):
    NONE = "none"  # no trace: it never started
    STARTED = "started"  # it ran, and nobody saw the end
    EXITED = "exited"  # it ended by itself
    KILLED = "killed"  # we ended it
    REFUSED = "refused"  # it could not be started
    LOST = "lost"  # the machine went down since; nothing can be said


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a run's file."""

    state: RunState
    status: int = -1
    signal: int = 0
    reason: str = ""  # of KILLED: timeout, canceled, agent_gone
    error_code: str = ""  # of REFUSED


class _Boot(msgspec.Struct, frozen=True):
    boot_id: str
    since_ms: int  # 0 on the first boot this spool has seen


class Spool:
    """The directory of run records, mode 0700."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory = directory
        self._clock = clock
        self._since_ms = 0

    def prepare(self) -> None:
        """Makes the directory, notes the boot, drops what is too old. Blocks; runs once."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._since_ms = self._note_boot()
            self._sweep()
        except OSError as err:
            raise error("storage_unhealthy", f"the spool {self.directory} cannot be used") from err

    def path(self, task_id: str, step_index: int) -> Path:
        name = task_id if _SAFE_NAME.fullmatch(task_id) else hashlib.sha256(task_id.encode()).hexdigest()
        return self.directory / f"{name}.{step_index}.run"

    def read(self, task_id: str, step_index: int) -> RunRecord:
        try:
            lines = self.path(task_id, step_index).read_bytes().splitlines()
        except FileNotFoundError:
            lost = self._since_ms > made_ms(task_id)
            return RunRecord(state=RunState.LOST if lost else RunState.NONE)
        for line in reversed(lines):
            with contextlib.suppress(msgspec.MsgspecError, ValueError):
                word, _, facts = line.partition(b" ")
                values = msgspec.json.decode(facts, type=dict[str, str | int])
                return msgspec.convert({**values, "state": word.decode()}, RunRecord)
        return RunRecord(state=RunState.STARTED)

    def busy(self, task_id: str, step_index: int) -> bool:
        """Whether a helper of an earlier agent is still ending this very run."""
        try:
            fd = os.open(self.path(task_id, step_index), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as err:
            if err.errno != errno.EWOULDBLOCK:
                raise
            return True
        finally:
            os.close(fd)
        return False

    def wait(self, task_id: str, step_index: int, longest_s: float) -> None:
        """Blocks until the run is no longer `busy`, or for `longest_s`."""
        end = time.monotonic() + longest_s
        while self.busy(task_id, step_index) and time.monotonic() < end:
            time.sleep(0.02)

    def forget(self, task_id: str, step_index: int) -> None:
        self.path(task_id, step_index).unlink(missing_ok=True)

    def _note_boot(self) -> int:
        file = self.directory / "boot"
        now = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        try:
            seen = msgspec.json.decode(file.read_bytes(), type=_Boot)
        except FileNotFoundError:
            seen = _Boot("", 0)
        except msgspec.MsgspecError:
            seen = _Boot("unreadable", 0)
        if seen.boot_id == now:
            return seen.since_ms
        since_ms = self._clock.now_ms() if seen.boot_id else 0
        fresh = file.with_suffix(".new")
        with fresh.open("wb") as out:
            out.write(msgspec.json.encode(_Boot(now, since_ms)))
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(file)
        return since_ms

    def _sweep(self) -> None:
        oldest_ns = time.time_ns() - KEEP_MS * 1_000_000
        for entry in os.scandir(self.directory):
            if entry.name.endswith(".run") and entry.stat(follow_symlinks=False).st_mtime_ns < oldest_ns:
                with contextlib.suppress(FileNotFoundError):
                    Path(entry.path).unlink()


def made_ms(task_id: str) -> int:
    """When an id was made, or 0 when it does not say."""
    stamp = task_id.partition("_")[2][:9]
    if len(stamp) < 9 or any(letter not in _DIGITS for letter in stamp):
        return 0
    value = 0
    for letter in stamp:
        value = value * 32 + _DIGITS.index(letter)
    return value
