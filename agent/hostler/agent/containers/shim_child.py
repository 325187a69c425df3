"""Starts programs for the shim: behind their walls, in their groups, with their streams. Standard library only.

Forks, because a program's namespaces, groups and privileges are given up one after the other in between; the shim has
one thread and nothing that a child must not inherit.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hostler.agent.containers import shim_mounts
from hostler.agent.host.descendants import children, inherit_orphans

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _CLEAR_ALL = 1, 24, 38, 47, 4
_CAPABILITIES_3 = 0x2008_0522
_MOST_CAPABILITIES = 64
_DEFAULT_SIGNALS = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ,
)  # fmt: skip
_KILL_LIMIT_S = 5.0
_libc = ctypes.CDLL(None, use_errno=True)


def settle(spec: dict[str, Any], directory: str) -> None:
    """What all programs of the task share. Raises `OSError`."""
    if os.geteuid() == 0:
        shim_mounts.settle(spec, directory)


def start(
    spec: dict[str, Any], argv: Sequence[str], streams: tuple[int, int, int], *, dies: bool = False, tty: bool = False
) -> int:
    """Its process id. Raises `OSError` with what kept it from starting.

    Args:
        dies: with the process that started it.
        tty: the streams are a terminal, which becomes its own.
    """
    told, tell = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(spec, argv, streams, parent if dies else 0, tty=tty)
        except OSError as err:
            os.write(tell, json.dumps([err.errno, err.strerror, err.filename or argv[0]]).encode())
        except BaseException as err:  # noqa: BLE001 - a forked process never goes on as the one it was forked from
            os.write(tell, json.dumps([errno.EINVAL, str(err), argv[0]]).encode())
        os._exit(127)
    os.close(tell)
    with os.fdopen(told, "rb") as file:
        said = file.read()
    if said:
        os.waitpid(pid, 0)
        number, why, where = json.loads(said)
        raise OSError(number, why, str(where))
    return pid


def _become(
    spec: dict[str, Any], argv: Sequence[str], streams: tuple[int, int, int], parent: int, *, tty: bool
) -> NoReturn:
    signal.set_wakeup_fd(-1)
    for number in _DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    for group in spec["groups"]:
        Path(group, "cgroup.procs").write_text("0")
    os.setsid()
    for fd, stream in enumerate(streams):
        os.dup2(stream, fd)
    if tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    _drop(spec)
    if parent:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which forgets it
        if os.getppid() != parent:
            os._exit(127)
    os.chdir(spec["working_dir"] or "/")
    environment = spec["environment"] | ({"TERM": "xterm"} if tty else {})
    os.execvpe(argv[0], list(argv), environment)  # noqa: S606 - an argv, never a shell; PATH is the task's own


def _drop(spec: dict[str, Any]) -> None:
    """All capabilities, whoever it runs as, and for good."""
    if os.geteuid() == 0:
        for number in range(_MOST_CAPABILITIES):
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        if spec["ids"]:
            uid, gid, groups = spec["ids"]
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        _libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
        header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
        if _libc.capset(header, none) != 0:
            raise OSError(ctypes.get_errno(), "capabilities cannot be dropped", "capset")
    if spec["no_new_privileges"] and _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "new privileges cannot be ruled out", "prctl")


def keep(spec: dict[str, Any], order: dict[str, Any], link: socket.socket, others: Iterable[socket.socket]) -> None:
    """A further program beside the first, under a keeper of its own that ends all of it with the connection."""
    if os.fork() != 0:
        return
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in others:
            if other.fileno() != link.fileno():
                other.close()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        inherit_orphans()
        _keep(spec, order, link)
    except BaseException as err:  # noqa: BLE001 - a forked process: it says so and leaves by no other door
        sys.stderr.write(f"{type(err).__name__}: {err}\n")
    os._exit(0)


def _keep(spec: dict[str, Any], order: dict[str, Any], link: socket.socket) -> None:
    ours, its = _terminal(order.get("size")) if order["tty"] else _pipes()
    try:
        pid = start(spec, order["argv"], its, tty=order["tty"], dies=True)
    except OSError as err:
        link.send(json.dumps({"error": f"{err.filename}: {err.strerror}"}).encode())
        return
    socket.send_fds(link, [json.dumps({"pid": pid}).encode()], ours)
    for fd in {*ours, *its}:
        os.close(fd)
    ended, poll = os.pidfd_open(pid), select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(link, select.POLLIN)
    events = [fd for fd, _ in poll.poll()]
    if ended in events:
        _, status = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):
            link.send(json.dumps({"code": 128 - status if status < 0 else status}).encode())
            link.recv(1)  # until it is closed: what it has left in the background may go on as long
    _end_children()


def _pipes() -> tuple[list[int], tuple[int, int, int]]:
    (r0, w0), (r1, w1), (r2, w2) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
    return [w0, r1, r2], (r0, w1, w2)


def _terminal(size: list[int] | None) -> tuple[list[int], tuple[int, int, int]]:
    ours, its = os.openpty()
    if size is not None:
        rows, columns = size
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return [ours], (its, its, its)


def _end_children() -> None:
    deadline = time.monotonic() + _KILL_LIMIT_S
    while (left := children()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.001)


def out_of_memory(groups: Iterable[str]) -> bool:
    """Whether the kernel ended something of it for memory."""
    for path in (Path(group, file) for group in groups for file in ("memory.oom_control", "memory.events")):
        with contextlib.suppress(OSError, ValueError):
            words = dict(line.split()[:2] for line in path.read_text().splitlines())
            if int(words.get("oom_kill", "0")):
                return True
    return False
