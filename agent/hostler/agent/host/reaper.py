"""The helper process: runs one command at a time and ends everything that command started.

Started by `helpers.Helper` as `python -I -m hostler.agent.host.reaper GROUPS` with one end of a SEQPACKET
socket pair as its standard input; GROUPS are the
system calls its commands may use beyond the usual. Only the standard library may be imported here.

    agent  -> helper   {"id", "argv", "env", "cwd", "user", "record", "note", "timeout", "grace",
                        "sha256", "capture", "secret_fds", "secret_env", "walls"}, with the write ends of the
                        captured pipes, then the descriptors of the secrets
    agent  -> helper   {"cancel": id}
    helper -> agent    {"id", "status", "signal", "reason", "leftovers", "stuck": process ids, "landlock",
                        "undeclared"}
                       {"id", "refused": errno, "message"} | {"id", "changed": digest} | {"id", "unconfined": reason}

The helper is a subreaper and has one command at a time. So whatever is left below it belongs to that
command, however often it forked or left its session (K6), and only direct children are ever
signalled, whose process ids nobody else can have taken. When the agent goes away, the socket ends:
the helper ends the tree, writes the record and leaves.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

from hostler.agent.host.confine import Confined, Unconfined, Walls
from hostler.agent.host.confine import settle as wall_in
from hostler.agent.host.descendants import children, inherit_orphans
from hostler.agent.host.seccomp import machine
from hostler.agent.host.watcher import Watcher

MESSAGE_BYTES = 256 * 1024
MOST_SECRETS = 8  # of one command
SECRET_BYTES = 64 * 1024
FIRST_SECRET_FD = 3  # in the child; `/proc/self/fd/N` in its arguments counts from there
_POLL_S = 86_400.0  # poll(2) counts milliseconds in 32 bits, and a task may run for a year
KILL_LIMIT_S = 5.0  # after this a process that ignores SIGKILL hangs in the kernel (K5)

_PR_SET_DUMPABLE, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 4, 47, 4
_ABOVE = 64  # where descriptors stand that must survive the child's own 0, 1, 2, 3, ...
_OPEN_RECORD = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
# What Python or `main` ignores must not be ignored by the command.
_DEFAULT_SIGNALS = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
)  # fmt: skip

Order = dict[str, Any]


class AgentGone(Exception):
    """The other end of the socket is closed."""


class Changed(Exception):
    """The executable's digest is not the pinned one."""


class Record:
    """Append-only notes of one run, for whoever asks after a crash; locked while the tree lives."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, _OPEN_RECORD, 0o600) if path else -1
        if path:
            fcntl.flock(self._fd, fcntl.LOCK_EX)  # waits for an older helper to end the same step

    def write(self, word: str, **facts: object) -> None:
        if self._fd >= 0:
            os.write(self._fd, f"{word} {json.dumps(facts)}\n".encode())

    def end(self, word: str, **facts: object) -> None:
        """The last line. A full disk here only leaves the run's end unknown."""
        with contextlib.suppress(OSError):
            self.write(word, **facts)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class Tree:
    """All that one command started, seen from its subreaper."""

    def __init__(self, main: int) -> None:
        self.main = main
        self.main_status: int | None = None
        self._signalled: set[int] = set()

    @property
    def leftovers(self) -> int:
        """How many processes besides the first one had to be ended."""
        return len(self._signalled - {self.main})

    def reap(self) -> bool:
        """Collects whatever ended; whether nothing is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main:
                self.main_status = os.waitstatus_to_exitcode(status)

    def end(self, grace_s: float) -> list[int]:
        """SIGTERM, then SIGKILL until nothing is left. Returns those that would not die."""
        told: set[int] = set()
        if self.main_status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.main, signal.SIGTERM)
            told.add(self.main)
            self._signalled.add(self.main)
        if self._until(time.monotonic() + grace_s, signal.SIGTERM, told):
            return []
        if self._until(time.monotonic() + KILL_LIMIT_S, signal.SIGKILL, set()):
            return []
        return children()

    def _until(self, deadline: float, number: signal.Signals, told: set[int]) -> bool:
        pause = 0.0005
        while not self.reap():
            for pid in children():
                if pid not in told or number == signal.SIGKILL:
                    told.add(pid)
                    self._signalled.add(pid)
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            if time.monotonic() >= deadline:
                return self.reap()
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        return True


def pinned(path: str, sha256: str) -> int:
    """An open executable whose bytes have that digest; starting it by descriptor leaves no gap (J4)."""
    low = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    os.close(low)
    with open(fd, "rb", closefd=False) as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual == sha256 and os.pread(fd, 2, 0) != b"#!":
        return fd
    os.close(fd)
    raise Changed(actual if actual != sha256 else "a script, which cannot be held from check to start")


def spawn(confined: Confined, order: Order, fds: list[int]) -> int:
    """One execve of the fixed path (EX-06), behind its walls: no shell, no wrapper, no search path."""
    path, fd = order["argv"][0], -1
    streams = sum(order["capture"])
    secrets = streams + order["secret_fds"]
    ends = iter(fds[:streams])
    actions = [(os.POSIX_SPAWN_DUP2, next(ends), 1 + n) for n, wanted in enumerate(order["capture"]) if wanted]
    above = [fcntl.fcntl(secret, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for secret in fds[streams:secrets]]
    actions += [(os.POSIX_SPAWN_DUP2, secret, FIRST_SECRET_FD + n) for n, secret in enumerate(above)]
    user = order["user"]
    os.chdir(order["cwd"])
    try:
        if order["sha256"]:
            fd = pinned(path, order["sha256"])
            path = f"/proc/self/fd/{fd}"
        if user is not None:
            for end in fds[:streams]:
                os.fchown(end, user[0], user[1])  # so that /dev/stdout can be opened by its new owner
        environment = order["env"] | read_env(order["secret_env"], fds[secrets:])

        def execute() -> int:
            return os.posix_spawn(
                path, order["argv"], environment,
                file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS,
            )  # fmt: skip

        return confined.start(execute)
    finally:
        for held in (*above, fd):
            if held >= 0:
                os.close(held)


def read_env(names: list[str], fds: list[int]) -> dict[str, bytes]:
    """The only place where a secret becomes a Python value; this process ends after the command."""
    return {name: os.pread(fd, SECRET_BYTES, 0) for name, fd in zip(names, fds, strict=True)}


class Helper:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        self._confined: Confined | None = None
        self._watcher: Watcher | None = None

    def serve(self) -> None:
        """One order after the other until the agent is gone."""
        with contextlib.suppress(AgentGone):
            while True:
                order, fds = self._receive()
                if "argv" in order:
                    self._send({"id": order["id"], **self._run(order, fds)})

    def refuse(self, reason: str) -> None:
        """Starts nothing: a command without walls is none of ours."""
        with contextlib.suppress(AgentGone):
            while True:
                order, fds = self._receive()
                for fd in fds:
                    os.close(fd)
                if "argv" in order:
                    self._send({"id": order["id"], "unconfined": reason})

    def _receive(self) -> tuple[Order, list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self._link, MESSAGE_BYTES, 2 + MOST_SECRETS)
        except ConnectionError as err:
            raise AgentGone from err
        if not data:
            raise AgentGone
        for fd in fds:
            os.set_inheritable(fd, False)  # `recv_fds` drops its flags in Python 3.11
        order: Order = json.loads(data)
        return order, fds

    def _send(self, answer: dict[str, Any]) -> None:
        try:
            self._link.send(json.dumps(answer).encode())
        except ConnectionError as err:
            raise AgentGone from err

    def _run(self, order: Order, fds: list[int]) -> dict[str, Any]:
        try:
            record = Record(order["record"])
        except OSError as err:
            return _refusal(err)
        try:
            record.write("started", argv_digest=order["note"], at_ms=time.time_ns() // 1_000_000)
            confined = self._confined_for(order)
            pid = spawn(confined, order, fds)
        except Changed as err:
            record.end("refused", error_code="command_changed")
            record.close()
            return {"changed": str(err)}
        except Unconfined as err:
            record.end("refused", error_code="sandbox_unavailable")
            record.close()
            return {"unconfined": str(err)}
        except OSError as err:
            record.end("refused", error_code="command_not_found")
            record.close()
            return _refusal(err)
        finally:
            for fd in fds:
                os.close(fd)
        watcher = self._watcher
        try:
            answer = self._follow(Tree(pid), order, record, watcher)
        finally:
            record.close()
        seen = watcher.taken() if watcher is not None else []
        return answer | {"landlock": confined.landlock_abi, "undeclared": seen}

    def _confined_for(self, order: Order) -> Confined:
        """The thread behind these walls; mostly they are those of the last command."""
        user, walls = order["user"] and tuple(order["user"]), Walls.of(order["walls"])
        if self._confined is not None and self._confined.fits(user, walls):
            return self._confined
        if self._confined is not None:
            self._confined.close()
            self._confined = self._watcher = None
        confined = Confined(user, walls)
        if confined.listener >= 0:
            self._watcher = Watcher(confined.listener, machine(), walls.writes or ())
        self._confined = confined
        return confined

    def _follow(self, tree: Tree, order: Order, record: Record, watcher: Watcher | None) -> dict[str, Any]:
        reason = self._watch(tree.main, order, watcher)
        if not reason:
            tree.reap()
            record.end("exited", **_ending(tree.main_status))
        stuck = [] if tree.reap() else tree.end(order["grace"])
        if reason:
            record.end("killed", reason=reason, **_ending(tree.main_status))
        return {"reason": reason, "leftovers": tree.leftovers, "stuck": stuck, **_ending(tree.main_status)}

    def _watch(self, pid: int, order: Order, watcher: Watcher | None) -> str:
        """Until the first process ends by itself (""), or why it has to."""
        deadline = time.monotonic() + order["timeout"]
        ended = os.pidfd_open(pid)
        self._poll.register(ended, select.POLLIN)
        if watcher is not None:
            self._poll.register(watcher.fd, select.POLLIN)
        try:
            while True:
                left = deadline - time.monotonic()
                events = [fd for fd, _ in self._poll.poll(min(max(0.0, left), _POLL_S) * 1000 + 1)]
                if ended in events:
                    return ""
                if left <= 0:
                    return "timeout"
                if not events:
                    continue
                if watcher is not None and watcher.fd in events:
                    watcher.step()
                    continue
                if self._cancels(order):
                    return "canceled"
        except AgentGone:
            return "agent_gone"
        finally:
            self._poll.unregister(ended)
            os.close(ended)
            if watcher is not None:
                self._poll.unregister(watcher.fd)

    def _cancels(self, order: Order) -> bool:
        message, _ = self._receive()
        return bool(message.get("cancel") == order["id"])


def _refusal(err: OSError) -> dict[str, Any]:
    return {"refused": err.errno or 0, "message": err.strerror or str(err), "path": str(err.filename or "")}


def _ending(status: int | None) -> dict[str, int]:
    if status is None:
        return {"status": -1, "signal": 0}
    return {"status": max(status, -1), "signal": max(-status, 0)}


def settle() -> None:
    """Makes this process a quiet, private subreaper."""
    inherit_orphans()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if os.geteuid() == 0:
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # only the end of the socket ends us: the tree goes first
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)


def main() -> None:
    link = socket.socket(fileno=os.dup(0))
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    settle()
    try:
        wall_in(frozenset(filter(None, sys.argv[1].split(","))))
    except Unconfined as err:
        Helper(link).refuse(str(err))
        return
    Helper(link).serve()


if __name__ == "__main__":
    main()
