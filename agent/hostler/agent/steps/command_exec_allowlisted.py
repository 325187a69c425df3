"""`command.exec_allowlisted`: one command profile of the signed catalog, by execve (SK-09, EX-04..08).

Whether it ran is known from the record that the helper process keeps, not from the agent's memory.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hostler.agent.host.execute import Finished, RunRecord, RunState
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.agent.steps.profile_run import command_of
from hostler.agent.steps.profile_run import failure as _failure
from hostler.agent.steps.profile_run import undeclared as _undeclared
from hostler.base.clock import Deadline
from hostler.base.digest import digest_of
from hostler.base.errors import error
from hostler.catalog.argv import build_argv
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.params.command import ExecAllowlisted

if TYPE_CHECKING:
    from hostler.agent.secrets.secret import Secret


class ExecAllowlistedKind:
    name = "command.exec_allowlisted"

    async def plan(self, view: StepView) -> Plan:
        """The argv as it would be passed, who as, and the names of what the environment holds."""
        profile, argv = _resolve(view)
        names = sorted({*profile.env_passthrough, *profile.env})
        facts = [f"as {profile.run_as or 'the service user'}", f"in {profile.working_directory}"]
        facts += [f"with {', '.join(names)}"] if names else ["with an empty environment"]
        secret_names = [*profile.secret_files, *profile.secret_env]
        facts += [f"given the secrets {', '.join(secret_names)}"] if secret_names else []
        facts += [_declared(profile)]
        facts += [f"pinned to sha256 {profile.sha256}"] if profile.sha256 else []
        return Plan((Change(action="run", target=_shown(argv), detail="; ".join(facts)),))

    async def apply(self, context: StepContext) -> Outcome:
        profile, argv = _resolve(context)
        given = {name: context.secrets.use(handle) for name, handle in _handles(context, profile).items()}
        for again in range(profile.retries, -1, -1):
            with _descriptors(given) as fds:
                finished = await _run(context, profile, argv, fds)
            context.confined(_walls_said(profile, finished))
            failure = _undeclared(argv[0], finished) or _failure(argv[0], profile, finished.status, finished.signal)
            if finished.leftovers:
                context.log("agent", f"{finished.leftovers} processes outlived {argv[0]} and were ended")
            if failure is None:
                return _outcome(argv, finished.status, **_streams(context, profile, finished))
            if not again or failure.code != "exit_status":
                raise failure
            context.log("agent", f"{failure.message}; {again} tries left")
        raise AssertionError("the last try returns or raises")

    async def probe(self, view: StepView) -> Probe:
        profile, argv = _resolve(view)
        record = await view.host.execute.recall(view.task_id, view.step_index)
        return _judge(profile, argv, record)


KIND = ExecAllowlistedKind()


def _resolve(view: StepView) -> tuple[CommandProfile, tuple[str, ...]]:
    params: ExecAllowlisted = view.params
    profile = view.command
    if profile is None or profile.id != params.profile:
        raise error("catalog_mismatch", f"command profile {params.profile!r} is not in the signed catalog")
    return profile, build_argv(profile, params.args)


def _handles(context: StepContext, profile: CommandProfile) -> dict[str, str]:
    """Exactly the secrets that the profile names (CR-04)."""
    params: ExecAllowlisted = context.params
    if params.secrets.keys() != {*profile.secret_files, *profile.secret_env}:
        raise error("binding_error", f"step {context.step_id} gives other secrets than {profile.id} takes")
    return params.secrets


@contextlib.contextmanager
def _descriptors(given: "dict[str, Secret]") -> Iterator[dict[str, int]]:
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


def _outcome(argv: tuple[str, ...], status: int, **streams: str) -> Outcome:
    digest = digest_of(argv)
    outputs: dict[str, Any] = {"exit_status": status, "argv_digest": digest, **streams}
    return Outcome(outputs=outputs, argv_digest=digest, exit_status=status)


def _streams(context: StepContext, profile: CommandProfile, finished: Finished) -> dict[str, str]:
    """Only what the profile captures; an absent output cannot be bound by mistake."""
    streams = {"stdout": finished.stdout} if profile.capture_stdout else {}
    streams |= {"stderr": finished.stderr} if profile.capture_stderr else {}
    return {name: context.secrets.scrub(text) for name, text in streams.items()}


def _judge(profile: CommandProfile, argv: tuple[str, ...], record: RunRecord) -> Probe:
    if record.state == RunState.EXITED:
        failure = _failure(argv[0], profile, record.status, record.signal)
        if failure is not None:
            return Probe(truth=Truth.DONE, error_code=failure.code, note=failure.message)
        outcome = _outcome(argv, record.status)
        return Probe(truth=Truth.DONE, outcome=outcome, note="ended before the restart; its output is lost")
    if record.state == RunState.REFUSED:
        return Probe(truth=Truth.DONE, error_code=record.error_code, note=f"{argv[0]} could not be started")
    if record.state == RunState.KILLED and record.reason != "agent_gone":
        return Probe(truth=Truth.DONE, error_code=record.reason, note=f"{argv[0]} was ended before the restart")
    if record.state == RunState.NONE or profile.on_interrupt == "rerun":
        return Probe(truth=Truth.NOT_DONE)
    return Probe(truth=Truth.AMBIGUOUS, note=f"nobody saw how {argv[0]} ended")


def _declared(profile: CommandProfile) -> str:
    effects = profile.effects
    if effects is None:
        return "its effects are not declared"
    return f"writing {', '.join(effects.writes) or 'nothing'}, {'with' if effects.network else 'without'} the network"


def _shown(argv: tuple[str, ...]) -> str:
    """Unmistakable: every argument in quotes of its own, as in JSON."""
    return " ".join('"' + a.replace("\\", "\\\\").replace('"', '\\"') + '"' for a in argv)
