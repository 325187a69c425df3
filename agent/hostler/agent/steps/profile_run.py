"""What a command profile comes to when it is run, for every step kind that runs one (SK-09, SK-12)."""

from hostler.agent.host.confine import UNDECLARED, Walls
from hostler.agent.host.execute import Command, Finished, environment
from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.command_profile import CommandProfile


def command_of(
    profile: CommandProfile,
    argv: tuple[str, ...],
    fds: dict[str, int],
    record: tuple[str, int] | None,
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
        walls=walls_of(profile),
        note=digest_of(argv),
    )


def walls_of(profile: CommandProfile) -> Walls:
    effects = profile.effects
    if effects is None:
        return UNDECLARED
    return Walls(effects.writes, effects.network, frozenset(effects.syscalls))


def undeclared(path: str, finished: Finished) -> HostlerError | None:
    """A command that swallowed the refusal and went on has failed all the same."""
    if not finished.undeclared:
        return None
    shown = ", ".join(finished.undeclared[:3])
    return error("undeclared_effect", f"{path} tried to change {shown}, which its profile does not declare")


def failure(path: str, profile: CommandProfile, status: int, signal: int) -> HostlerError | None:
    """Why an end is no success; None for one that is."""
    if signal:
        return error("killed_by_signal", f"{path} was ended by signal {signal}")
    if status not in profile.expected_exit_codes:
        return error("exit_status", f"{path} ended with exit code {status}")
    return None
