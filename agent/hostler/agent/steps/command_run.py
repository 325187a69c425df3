"""Runs a command profile as it says and no other way, for every kind that runs one (EX-04..08)."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hostler.agent.host.confine import UNDECLARED, Walls
from hostler.agent.host.execute import Command, Finished, environment
from hostler.agent.steps.contract import StepContext
from hostler.base.clock import Deadline
from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.command_profile import CommandProfile

if TYPE_CHECKING:
    from hostler.agent.secrets.secret import Secret


async def run_profile(
    context: StepContext, profile: CommandProfile, argv: tuple[str, ...], given: "Mapping[str, Secret]"
) -> Finished:
    """To its end, and again where the profile says so; the walls go into the receipt.

    Raises:
        HostlerError: `exit_status`, `killed_by_signal`, `undeclared_effect`, and what `Execute.run` raises.
    """
    for again in range(profile.retries, -1, -1):
        with _descriptors(given) as fds:
            finished = await _run(context, profile, argv, fds)
        context.confined(_walls_said(profile, finished))
        failure = undeclared(argv[0], finished) or failure_of(argv[0], profile, finished.status, finished.signal)
        if finished.leftovers:
            context.log("agent", f"{finished.leftovers} processes outlived {argv[0]} and were ended")
        if failure is None:
            return finished
        if not again or failure.code != "exit_status":
            raise failure
        context.log("agent", f"{failure.message}; {again} tries left")
    raise AssertionError("the last try returns or raises")


@contextlib.contextmanager
def _descriptors(given: "Mapping[str, Secret]") -> Iterator[dict[str, int]]:
    """A fresh one of each secret, for one start of the command."""
    fds: dict[str, int] = {}
    try:
        for name, secret in given.items():
            fds[name] = secret.descriptor()
        yield fds
    finally:
        for fd in fds.values():
            os.close(fd)


async def _run(context: StepContext, profile: CommandProfile, argv: tuple[str, ...], fds: dict[str, int]) -> Finished:
    command = command_of(profile, argv, fds, (context.task_id, context.step_index))
    seconds = min(float(profile.timeout_seconds), context.deadline.remaining())
    deadline = Deadline.after(seconds, context.host.clock)
    return await context.host.execute.run(command, deadline=deadline, cancelled=context.cancelled, on_line=context.log)


def command_of(
    profile: CommandProfile, argv: tuple[str, ...], fds: Mapping[str, int], record: tuple[str, int] | None
) -> Command:
    """The whole command; `fds` are the descriptors of its secrets, by name."""
    return Command(
        argv=argv,
        env=environment(profile.env_passthrough, profile.env),
        secret_fds=tuple(fds[name] for name in profile.secret_files),
        secret_env={name: fds[name] for name in profile.secret_env},
        cwd=profile.working_directory,
        run_as=profile.run_as,
        sha256=profile.sha256,
        capture_stdout=profile.capture_stdout,
        capture_stderr=profile.capture_stderr,
        max_output_bytes=profile.max_output_bytes,
        record=record,
        walls=_walls(profile),
        note=digest_of(argv),
    )


def _walls(profile: CommandProfile) -> Walls:
    effects = profile.effects
    if effects is None:
        return UNDECLARED
    return Walls(effects.writes, effects.network, frozenset(effects.syscalls))


def _walls_said(profile: CommandProfile, finished: Finished) -> dict[str, Any]:
    """For the receipt: what every command is held to, what this one declared, and what it tried beyond."""
    effects = profile.effects
    return {
        "no_new_privileges": True,
        "seccomp": True,
        "cgroup": finished.cgroup,
        "landlock": finished.landlock,
        "writes": None if effects is None else list(effects.writes),
        "network": True if effects is None else effects.network,
        "syscalls": [] if effects is None else list(effects.syscalls),
        "undeclared": list(finished.undeclared),
    }


def undeclared(path: str, finished: Finished) -> HostlerError | None:
    """A command that swallowed the refusal and went on has failed all the same."""
    if not finished.undeclared:
        return None
    shown = ", ".join(finished.undeclared[:3])
    return error("undeclared_effect", f"{path} tried to change {shown}, which its profile does not declare")


def failure_of(path: str, profile: CommandProfile, status: int, signal: int) -> HostlerError | None:
    """Why an end is no success; None for one that is."""
    if signal:
        return error("killed_by_signal", f"{path} was ended by signal {signal}")
    if status not in profile.expected_exit_codes:
        return error("exit_status", f"{path} ended with exit code {status}")
    return None
