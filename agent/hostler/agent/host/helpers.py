"""The agent's side of its helper processes: starts them on demand, keeps them warm, lets them go.

A helper is one `reaper` process. It is started by exec, never by forking the agent, and reused for
one command after the other. Idle ones go after a minute; nothing wakes up before that.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hostler.agent.host.cgroups import Groups
from hostler.agent.host.descendants import children, inherit_orphans
from hostler.agent.host.reaper import MESSAGE_BYTES
from hostler.base.errors import error

IDLE_S = 60.0
CLOSE_LIMIT_S = 20.0  # longer than a helper takes to end a tree that ends at all
STALE_S = 20.0  # longer than a helper takes to end a tree when its agent has gone
_ORPHAN_ROUNDS = 2000  # ten seconds
_COMMAND = (sys.executable, "-I", "-X", "utf8", "-m", "hostler.agent.host.reaper")

Answer = dict[str, Any]


class HelperGone(Exception):
    """The helper ended in the middle of a command; what the command did is unknown."""


class Helper:
    """One helper process. Takes an order, gives one answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, allowed: frozenset[str], groups: Groups) -> None:
        self.allowed = allowed
        self._groups = groups
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                (*_COMMAND, ",".join(sorted(allowed))), stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
        ours.setblocking(False)
        self._loop, self._link = loop, ours
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.group = groups.make(self.pid)
        self._answer: asyncio.Future[Answer] | None = None
        self.ended: asyncio.Future[None] = loop.create_future()
        self.idle_since = 0.0
        loop.add_reader(ours, self._on_message)
        loop.add_reader(self._pidfd, self._on_exit)

    @property
    def usable(self) -> bool:
        return self._link.fileno() >= 0

    def order(self, order: dict[str, Any], fds: Sequence[int]) -> "asyncio.Future[Answer]":
        """Sends a command. The future raises `HelperGone` when the helper ends instead of answering.

        Raises:
            HostlerError: `too_large` for arguments and environment that no message holds.
        """
        data = msgspec.json.encode(order)
        if len(data) > MESSAGE_BYTES // 2:
            raise error("too_large", f"arguments and environment take {len(data)} bytes")
        self._answer = self._loop.create_future()
        try:
            socket.send_fds(self._link, [data], fds)
        except OSError:
            self.release()
            self._answer.set_exception(HelperGone())
        return self._answer

    def cancel(self, order_id: int) -> None:
        """Asks the helper to end the command; its answer says what became of it."""
        try:
            self._link.send(msgspec.json.encode({"cancel": order_id}))
        except OSError:
            self.release()

    def release(self) -> None:
        """Lets the helper go: it ends what it runs, then itself."""
        if self.usable:
            self._loop.remove_reader(self._link)
            self._link.close()

    async def leave(self) -> None:
        """Lets the helper go and waits until its memory is gone with it; one that hangs is not waited for."""
        self.release()
        await asyncio.wait({self.ended}, timeout=CLOSE_LIMIT_S)

    def kill(self) -> None:
        """For a helper that does not answer any more."""
        self.release()
        if self.group is not None:
            self.group.kill()
        self._process.kill()

    def _on_message(self) -> None:
        try:
            data = self._link.recv(MESSAGE_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        answer = self._answer
        if not data:
            self.release()
        if answer is None or answer.done():
            return
        if data:
            answer.set_result(msgspec.json.decode(data))
        else:
            answer.set_exception(HelperGone())

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        if self.group is not None:
            self._groups.ended(self.group)
        if self.usable:
            self._on_message()  # an answer may still lie in the socket
        self.release()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(HelperGone())
        self.ended.set_result(None)


class Pool:
    """At most `size` commands at once, each in a helper of its own."""

    def __init__(self, size: int, owner: str) -> None:
        self._groups = Groups(owner)
        self._swept = False
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Helper] = []
        self._all: set[Helper] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._adopts = False
        self._spared: Callable[[], frozenset[int]] = frozenset

    def adopt_orphans(self, spared: Callable[[], frozenset[int]] = frozenset) -> None:
        """From now on every child of this process that is no helper is a command's leftover."""
        inherit_orphans()
        self._adopts = True
        self._spared = spared

    async def end_orphans(self, helper: Helper) -> None:
        """Ends what a killed helper could not. Only direct children are signalled, none twice reaped."""
        await helper.ended  # its socket closes before its children are handed on
        for _ in range(_ORPHAN_ROUNDS if self._adopts else 0):
            helpers = {helper.pid for helper in self._all} | self._spared()
            orphans = [pid for pid in children() if pid not in helpers]
            if not orphans:
                return
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.005)
            for pid in orphans:
                os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - does not wait
            self._groups.clear()

    async def take(self, allowed: frozenset[str]) -> Helper:
        """Waits for a free slot; a warm helper with just these walls if there is one."""
        if not self._swept:
            self._swept = True
            asyncio.get_running_loop().call_later(STALE_S, self._groups.end_stale)
        await self._slots.acquire()
        for helper in [each for each in reversed(self._idle) if each.allowed == allowed]:
            self._idle.remove(helper)
            if helper.usable:
                return helper
        try:
            helper = Helper(asyncio.get_running_loop(), allowed, self._groups)
        except OSError as err:
            self._slots.release()
            raise error("internal_error", "no helper process can be started") from err
        self._all.add(helper)
        helper.ended.add_done_callback(lambda _: self._all.discard(helper))
        return helper

    def put(self, helper: Helper) -> None:
        """Gives the slot back, and the helper with it if it can still be used."""
        self._slots.release()
        if not helper.usable:
            return
        loop = asyncio.get_running_loop()
        helper.idle_since = loop.time()
        self._idle.append(helper)
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._drop_idle)

    async def close(self) -> None:
        """Ends what runs, and every helper."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        going = tuple(self._all)
        for helper in going:
            helper.release()
        if going:
            await asyncio.wait({helper.ended for helper in going}, timeout=CLOSE_LIMIT_S)
        self._groups.clear()

    def _drop_idle(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_S
        for helper in [h for h in self._idle if h.idle_since <= oldest]:
            self._idle.remove(helper)
            helper.release()
        self._sweep = None
        if self._idle:
            wait = min(h.idle_since for h in self._idle) - oldest
            self._sweep = loop.call_later(max(wait, 0.01), self._drop_idle)
