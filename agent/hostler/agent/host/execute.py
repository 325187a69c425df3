"""Commands: by execve in a helper process, with a deadline, a record and an end to the whole tree.

Nothing here forks the agent or knows a shell. Standard input is /dev/null, only 0, 1 and 2 are open,
the environment is exactly what is given (EX-06, EX-07).
"""

import asyncio
import errno
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.agent.host.confine import UNDECLARED, Walls
from hostler.agent.host.helpers import Answer, Helper, HelperGone, Pool
from hostler.agent.host.output import Capture, OnLine
from hostler.agent.host.processes import hangs
from hostler.agent.host.reaper import KILL_LIMIT_S, MOST_SECRETS
from hostler.agent.host.records import RunRecord, RunState, Spool
from hostler.agent.host.users import User, Users
from hostler.base.clock import Clock, Deadline
from hostler.base.errors import error

GRACE_S = 2.0  # between SIGTERM and SIGKILL
_ANSWER_MARGIN_S = 5.0
_ENDING_WAIT_S = GRACE_S + KILL_LIMIT_S


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, complete: nothing is searched, filled in or inherited.

    Attributes:
        argv: the first is the absolute path of the executable.
        run_as: user name, "" for the agent's unprivileged service user.
        sha256: digest the executable must have, or "".
        record: task id and step index that `recall` finds the run under, or None for no record.
        secret_fds: descriptors the child gets as 3, 4, ...; they stay the caller's.
        secret_env: variables whose values the helper reads from these descriptors. It ends after such a
            command, because what it has read cannot be wiped.
        walls: what it may write, and beyond what no command may do; see `Walls`.
        note: goes into the record; the digest of the argv.
        max_output_bytes: of each captured stream; the rest is read and dropped.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    run_as: str = ""
    sha256: str = ""
    capture_stdout: bool = False
    capture_stderr: bool = False
    max_output_bytes: int = 1_048_576
    record: tuple[str, int] | None = None
    secret_fds: tuple[int, ...] = ()
    secret_env: Mapping[str, int] = field(default_factory=dict)
    walls: Walls = UNDECLARED
    note: str = ""
    grace_s: float = GRACE_S


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a command ended by itself: with a status, or by a signal that was not ours.

    Attributes:
        leftovers: processes that outlived it and were ended.
        stdout, stderr: the last 64 KiB of what was captured.
        landlock: version of Landlock that held it to its declared paths; 0 where it declared none.
        cgroup: it had a control group of its own.
        undeclared: paths that it tried to change and had not declared.
    """

    status: int
    signal: int = 0
    leftovers: int = 0
    stdout: str = ""
    stderr: str = ""
    landlock: int = 0
    cgroup: bool = False
    undeclared: tuple[str, ...] = ()


class Execute:
    """The door. One per agent; `close` ends all that runs."""

    def __init__(self, spool: Path, clock: Clock, parallel: int) -> None:
        self._spool = Spool(spool, clock)
        self._pool = Pool(parallel, str(spool))
        self._users = Users()
        self._ids = itertools.count(1)
        self._stuck: set[int] = set()
        self._given_up: set[Helper] = set()
        self._ready = False
        self._preparing = asyncio.Lock()

    async def run(
        self,
        command: Command,
        *,
        deadline: Deadline,
        cancelled: asyncio.Event | None = None,
        on_line: OnLine | None = None,
    ) -> Finished:
        """Runs it to its end. Afterwards none of its processes is left.

        Raises:
            HostlerError: `timeout`, `canceled`, `command_not_found`, `command_changed`,
                `interrupted_apply` when the helper itself was killed.
        """
        _check(command)
        cancelled = cancelled or asyncio.Event()
        user = await self._users.to_run_as(command.run_as)
        await self._prepare()
        helper = await self._pool.take(command.walls.allowed)
        try:
            if cancelled.is_set():
                raise error("canceled", f"{command.argv[0]} was cancelled before it started")
            if deadline.passed():
                raise error("timeout", f"no time was left to start {command.argv[0]}")
            return await self._run_in(helper, command, user, deadline, cancelled, on_line)
        finally:
            self._pool.put(helper)

    @property
    def hung(self) -> int:
        """Runs that are over for us and whose processes SIGKILL did not end: they hang in the kernel (K5)."""
        self._stuck = {pid for pid in self._stuck if hangs(pid)}
        self._given_up = {helper for helper in self._given_up if not helper.ended.done() and hangs(helper.pid)}
        return len(self._stuck) + len(self._given_up)

    async def recall(self, task_id: str, step_index: int) -> RunRecord:
        """What became of a run before the agent's last restart; waits while it is still being ended."""
        await self._prepare()
        if self._spool.busy(task_id, step_index):
            await asyncio.to_thread(self._spool.wait, task_id, step_index, _ENDING_WAIT_S)
        return self._spool.read(task_id, step_index)

    def forget(self, task_id: str, step_index: int) -> None:
        """Drops the record, once the outcome stands in the journal."""
        self._spool.forget(task_id, step_index)

    def adopt_orphans(self, spared: Callable[[], frozenset[int]] = frozenset) -> None:
        """Makes this process inherit what a killed helper leaves behind, to end it.

        For the daemon only: from now on every child of this process that is no helper is ended.
        """
        self._pool.adopt_orphans(spared)

    async def close(self) -> None:
        """Ends what runs, and the helpers."""
        await self._pool.close()

    async def _prepare(self) -> None:
        if self._ready:
            return
        async with self._preparing:
            if not self._ready:
                await asyncio.to_thread(self._spool.prepare)
                self._ready = True

    async def _run_in(
        self,
        helper: Helper,
        command: Command,
        user: User | None,
        deadline: Deadline,
        cancelled: asyncio.Event,
        on_line: OnLine | None,
    ) -> Finished:
        loop = asyncio.get_running_loop()
        say = on_line or _silent
        wanted = (command.capture_stdout, command.capture_stderr)
        captures = {
            name: Capture(name, command.max_output_bytes, say, loop)
            for name, captured in zip(("stdout", "stderr"), wanted, strict=True)
            if captured
        }
        timeout_s = deadline.remaining()
        order_id = next(self._ids)
        order = self._order(order_id, command, user, timeout_s)
        try:
            handed_on = (*command.secret_fds, *command.secret_env.values())
            answer = helper.order(order, [*(c.writer for c in captures.values()), *handed_on])
            for capture in captures.values():
                capture.release_writer()
            result = await _answer_of(helper, order_id, answer, cancelled, timeout_s + command.grace_s)
            for capture in captures.values():
                capture.finish()
        except HelperGone as err:
            await self._pool.end_orphans(helper)
            raise error("interrupted_apply", f"the helper that ran {command.argv[0]} was killed") from err
        except BaseException:
            self._given_up.add(helper)
            helper.release()
            raise
        finally:
            for capture in captures.values():
                capture.drop()
            if command.secret_env:
                await helper.leave()
        if result.get("stuck"):
            self._stuck.update(result["stuck"])
            helper.release()
        kept = {name: capture.kept for name, capture in captures.items()}
        return _finished(command, result, cgroup=helper.group is not None, **kept)

    def _order(self, order_id: int, command: Command, user: User | None, timeout_s: float) -> dict[str, object]:
        return {
            "id": order_id,
            "argv": command.argv,
            "env": command.env,
            "cwd": command.cwd,
            "user": (user.uid, user.gid, user.groups) if user else None,
            "record": str(self._spool.path(*command.record)) if command.record else "",
            "note": command.note,
            "timeout": timeout_s,
            "grace": command.grace_s,
            "sha256": command.sha256,
            "capture": (command.capture_stdout, command.capture_stderr),
            "secret_fds": len(command.secret_fds),
            "secret_env": tuple(command.secret_env),
            "walls": {
                "writes": command.walls.writes,
                "network": command.walls.network,
                "syscalls": sorted(command.walls.allowed),
            },
        }


async def _answer_of(
    helper: Helper,
    order_id: int,
    answer: "asyncio.Future[Answer]",
    cancelled: asyncio.Event,
    longest_s: float,
) -> Answer:
    """Waits; passes a cancel on; gives a helper up that is long overdue, a stopped one for instance."""
    overdue = longest_s + KILL_LIMIT_S + _ANSWER_MARGIN_S
    timer = asyncio.get_running_loop().call_later(overdue, helper.kill)
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(_cancel_when(cancelled, helper, order_id))
            await asyncio.wait([answer])
            watcher.cancel()
    finally:
        timer.cancel()
    return answer.result()


async def _cancel_when(cancelled: asyncio.Event, helper: Helper, order_id: int) -> None:
    await cancelled.wait()
    helper.cancel(order_id)


def _finished(command: Command, answer: Answer, *, cgroup: bool, stdout: str = "", stderr: str = "") -> Finished:
    path = command.argv[0]
    if "changed" in answer:
        raise error("command_changed", f"{path} is not the pinned executable: {answer['changed']}")
    if "unconfined" in answer:
        raise error("sandbox_unavailable", f"{path} was not started: {answer['unconfined']}")
    if "refused" in answer:
        raise _not_started(path, answer)
    if answer["reason"] == "timeout":
        raise error("timeout", f"{path} did not end in time")
    if answer["reason"]:
        raise error("canceled", f"{path} was cancelled")
    return Finished(
        status=answer["status"],
        signal=answer["signal"],
        leftovers=answer["leftovers"],
        stdout=stdout,
        stderr=stderr,
        landlock=answer["landlock"],
        cgroup=cgroup,
        undeclared=tuple(answer["undeclared"]),
    )


def _not_started(path: str, answer: Answer) -> Exception:
    where = answer["path"]
    if answer["refused"] in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return error("storage_unhealthy", f"the run of {path} cannot be recorded: {answer['message']}")
    if where and where != path and not where.startswith("/proc/self/fd/"):
        return error("file_error", f"{path} was not started, because of {where}: {answer['message']}")
    return error("command_not_found", f"{path} cannot be started: {answer['message']}")


def environment(passthrough: Iterable[str], fixed: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a command: names taken over from the agent's own, then fixed values."""
    return {**{name: os.environ[name] for name in passthrough if name in os.environ}, **fixed}


def _check(command: Command) -> None:
    """What must hold whoever made the command; the profile's schema was checked before."""
    if not command.argv or not command.argv[0].startswith("/"):
        raise error("command_not_found", "a command is named by its absolute path")
    names = (*command.env, *command.secret_env)
    texts = (*command.argv, *names, *command.env.values(), command.cwd)
    if any("\0" in text for text in texts) or any("=" in name or not name for name in names):
        raise error("invalid_request", f"an argument or variable of {command.argv[0]} cannot be passed on")
    if len(command.secret_fds) + len(command.secret_env) > MOST_SECRETS:
        raise error("too_large", f"{command.argv[0]} is given more than {MOST_SECRETS} secrets")


def _silent(_stream: str, _line: str) -> None:
    return


__all__ = ["Command", "Execute", "Finished", "RunRecord", "RunState", "environment"]
