"""Supervises one task of the process runtime, and outlives the agent that started it. Standard library only.

Started as `python -I -S shim.py DIRECTORY`, in a session of its own, with a pipe as descriptor 3 that it answers on
once: {"pid": n} or {"error": text}. The directory holds `spec.json`; here it writes

    started.json    {"pid", "at_ms"}
    end.json        {"code", "signal", "oom", "reason", "at_ms"}
    task.log        what the program says, as CRI lays it down; `task.log.1` before that

and listens on the SEQPACKET socket `s`, one request a connection:

    {"do": "wait"}                        closed when all is over
    {"do": "stop", "grace": seconds}      likewise
    {"do": "run", "argv": [...], "tty"}   {"pid"} with the program's streams, then {"code"}; closing it ends the program
        "size": [rows, columns]           of its terminal; older agents leave it out

It is a subreaper: whatever the program leaves behind becomes its child, and ends with the program, as in a container.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))  # -I and -S: nothing else is searched

from hostler.agent.containers import shim_child, shim_log
from hostler.agent.host.descendants import children, inherit_orphans

MESSAGE_BYTES = 128 * 1024
KILL_LIMIT_S = 5.0
_AGAIN_S = 0.1
_READY = 3


class Shim:
    def __init__(self, directory: int, spec: dict[str, Any]) -> None:
        self._directory = directory
        self._spec = spec
        self._poll = select.poll()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: list[socket.socket] = []
        self._asking: dict[int, socket.socket] = {}
        self._kill_at = 0.0
        self._log = shim_log.Log(directory, spec["log_bytes"])
        self.pid = 0  # of the program
        self._status: int | None = None

    def start(self) -> dict[int, str]:
        """→ its streams by their read ends. Raises `OSError` with what could not be done."""
        self._listen()
        return self._start()

    def run(self, streams: dict[int, str]) -> None:
        """To the end of the program, and of all that it has left behind."""
        wake, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(told)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for fd in (*streams, wake, self._listener.fileno()):
            self._poll.register(fd, select.POLLIN)
        while self._reap():
            for fd, _ in self._poll.poll(self._patience_ms()):
                if fd in streams:
                    self._copy(fd, streams)
                elif fd == wake:
                    os.read(wake, 4096)
                elif fd == self._listener.fileno():
                    self._accept()
                else:
                    self._answer(fd)
            if self._kill_at and time.monotonic() >= self._kill_at:
                self._signal(signal.SIGKILL)
                self._kill_at = time.monotonic() + _AGAIN_S
        self._end(streams)

    def _listen(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("s", dir_fd=self._directory)
        self._listener.bind(f"/proc/self/fd/{self._directory}/s")
        self._listener.listen(128)

    def _start(self) -> dict[int, str]:
        out, err = pipes = [os.pipe2(os.O_CLOEXEC) for _ in shim_log.STREAMS]
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.pid = shim_child.start(self._spec, self._spec["command"], (null, out[1], err[1]), dies=True)
        os.close(null)
        for _, writer in pipes:
            os.close(writer)
        for reader, _ in pipes:
            os.set_blocking(reader, False)
        self._note("started.json", pid=self.pid)
        return {reader: name for (reader, _), name in zip(pipes, shim_log.STREAMS, strict=True)}

    def _reap(self) -> bool:
        """Whether the program still runs."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.pid:
                    self._status = os.waitstatus_to_exitcode(status)
        return self._status is None

    def _patience_ms(self) -> float | None:
        return max(0.0, self._kill_at - time.monotonic()) * 1000 if self._kill_at else None

    def _copy(self, fd: int, streams: dict[int, str]) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(fd, 64 * 1024)
        except BlockingIOError:
            return False
        if data:
            self._log.write(streams[fd], data)
        else:
            self._poll.unregister(fd)
        return bool(data)

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        self._asking[link.fileno()] = link
        self._poll.register(link, select.POLLIN)

    def _answer(self, fd: int) -> None:
        self._poll.unregister(fd)
        link = self._asking.pop(fd)
        try:
            order = json.loads(link.recv(MESSAGE_BYTES) or b"{}")
        except (OSError, ValueError):
            order = {}
        if order.get("do") in ("wait", "stop"):
            self._waiting.append(link)  # it is closed when all is over
        if order.get("do") == "stop" and (not self._kill_at or order["grace"] <= 0):
            self._kill_at = time.monotonic() + order["grace"]
            self._signal(signal.SIGTERM)
        elif order.get("do") == "run":
            shim_child.keep(self._spec, order, link, (self._listener, *self._asking.values(), *self._waiting))
            link.close()
        elif order.get("do") not in ("wait", "stop"):
            link.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _end(self, streams: dict[int, str]) -> None:
        """The first process is gone, and everything else goes with it."""
        deadline = time.monotonic() + KILL_LIMIT_S
        while (left := children()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.001)
        for fd in streams:
            with contextlib.suppress(KeyError):  # its end was seen before
                while self._copy(fd, streams):
                    pass
        self._log.close()
        status = self._status if self._status is not None else -signal.SIGKILL
        code, number = (128 - status, -status) if status < 0 else (status, 0)
        oom = code != 0 and shim_child.out_of_memory(self._spec["groups"])
        self._note("end.json", code=code, signal=number, oom=oom, reason="OOMKilled" if oom else "")
        for link in self._waiting:
            link.close()

    def _note(self, name: str, **facts: object) -> None:
        note(self._directory, name, **facts)


def note(directory: int, name: str, **facts: object) -> None:
    """Whole or not at all, also after a power cut."""
    fd = os.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=directory)
    os.write(fd, json.dumps({**facts, "at_ms": time.time_ns() // 1_000_000}).encode())
    os.fsync(fd)
    os.close(fd)
    os.rename(f"{name}.new", name, src_dir_fd=directory, dst_dir_fd=directory)


def say(**facts: object) -> None:
    """To whoever started us, if it is still there."""
    with contextlib.suppress(OSError):
        os.write(_READY, json.dumps(facts).encode())
    os.close(_READY)


def main() -> None:
    directory = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.set_inheritable(_READY, False)
    lock = os.open("lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say(pid=0)  # another one supervises it
        return
    with open("spec.json", "rb", opener=lambda name, flags: os.open(name, flags, dir_fd=directory)) as file:
        spec = json.load(file)
    inherit_orphans()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    shim = Shim(directory, spec)
    try:
        shim_child.settle(spec, sys.argv[1])
        streams = shim.start()
    except OSError as err:
        why = f"{err.filename}: {err.strerror}" if err.filename else str(err.strerror)
        note(directory, "end.json", code=127, signal=0, oom=False, reason=f"StartError: {why}")
        say(error=why)
        return
    say(pid=shim.pid)
    shim.run(streams)


if __name__ == "__main__":
    main()
