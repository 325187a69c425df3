"""`hostler-control`: init, serve, principals, config. `serve` is the composition root.

One TaskGroup; every loop:

| loop | reads | emits |
| --- | --- | --- |
| uvicorn | HTTP requests | commands, queries, event streams |
| gRPC node server | agents' sessions | accepted tasks, reports; stored envelopes down |
| gRPC enrolment server | tokens and signing requests | identities |
| `loops.expire` | the clock | tasks that nobody came for, ended |

If one of them ends by an error, the process ends.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from hostler.base.errors import HostlerError, error

DEFAULT_CONFIG = Path("/etc/hostler-control/control.toml")
EXIT_REFUSED, EXIT_USAGE = 1, 2
ROLES = ("platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except HostlerError as err:
        print(f"error: {err.message} [{err.code}]", file=sys.stderr)  # noqa: T201
        if err.hint:
            print(f"  {err.hint}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE if err.code == "invalid_config" else EXIT_REFUSED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hostler-control", description="The control plane: decides, signs, remembers; dials nobody."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="control.toml [%(default)s]")
        command.set_defaults(run=function)
        return command

    add("init", _init, "Check keys and configuration, and make the store.")
    add("serve", _serve, "Run the control plane until it is told to stop.")
    add("config", _config, "Every configuration value and where it comes from.")
    principal = add("add-principal", _add_principal, "Make a principal while the control plane is not running.")
    principal.add_argument("name")
    principal.add_argument("--role", required=True, choices=ROLES)
    principal.add_argument("--org", default="", help="tenant the role is limited to")
    principal.add_argument("--project", default="", help="project the role is limited to")
    principal.add_argument("--valid-days", type=int, default=365)
    principal.add_argument("--token-out", type=Path, required=True, help="file for the bearer token, mode 0600")
    return parser


def _init(options: argparse.Namespace) -> int:
    from hostler.control.config import load
    from hostler.control.keys import load_keys

    config = load(options.config)
    load_keys(config)
    asyncio.run(_with_engine(options.config, None))
    print(f"store ready: {config.store_path}")  # noqa: T201
    return 0


def _config(options: argparse.Namespace) -> int:
    from hostler.base.config import describe, read_toml
    from hostler.control.config import load

    for name, value, origin in describe(load(options.config), read_toml(options.config)):
        print(f"{name:28} {value!r:40} {origin}")  # noqa: T201
    return 0


def _add_principal(options: argparse.Namespace) -> int:
    from hostler.base.clock import SystemClock
    from hostler.control.kernel.commands import Actor, CreatePrincipal
    from hostler.pki.storage import write_private
    from hostler.pki.tokens import new_bearer_token

    token = new_bearer_token()
    command = CreatePrincipal(
        actor=Actor(kind="system", name="hostler-control", role="platform_admin"),
        name=options.name,
        token_sha256=token.sha256,
        role=options.role,
        org_id=options.org,
        project_id=options.project,
        expires_at_ms=SystemClock().now_ms() + options.valid_days * 86_400_000,
    )
    asyncio.run(_with_engine(options.config, command))
    write_private(options.token_out, token.text.encode())
    print(f"made {options.role} {options.name}; its token is in {options.token_out}")  # noqa: T201
    return 0


async def _with_engine(path: Path, command: object) -> None:
    """Opens the store, executes one command if there is one, and closes it."""
    from hostler.control.config import load
    from hostler.control.service import open_engine

    engine, _ = await open_engine(load(path))
    try:
        if command is not None:
            await engine.execute(command)  # type: ignore[arg-type]
    finally:
        await engine.close()


def _serve(options: argparse.Namespace) -> int:
    from hostler.base import logs
    from hostler.control import service
    from hostler.control.config import load

    config = load(options.config)
    logs.set_up(config.log_format, config.log_level)
    try:
        asyncio.run(service.serve(config))
    except BaseExceptionGroup as failed:
        first = failed.exceptions[0]
        if isinstance(first, HostlerError):
            raise first from failed
        raise error("internal_error", f"a loop of the control plane ended: {first}") from failed
    return 0


def console() -> None:
    sys.exit(main())
