"""`hostler-control`: init, serve, principals, policy, store, config. `serve` is the composition root.

One TaskGroup; every loop:

| loop | reads | emits |
| --- | --- | --- |
| uvicorn | HTTP requests | commands, queries, event streams |
| gRPC node server | agents' sessions | accepted tasks, reports; stored envelopes down |
| gRPC enrolment server | tokens and signing requests | identities |
| `loops.expire` | the clock | tasks that nobody came for, ended |
| `loops.agents` | the clock | lifecycle runs whose time is over, ended; rollouts, moved |
| `loops.endpoints` | the clock | endpoints whose lease or attempt is over, marked so |
| `loops.checkpoints` | receipt chains that have grown | signed checkpoints over all of them |
| `loops.bundles` | the clock, files of code bundles | those that nobody used for long, removed |
| `loops.webhooks` | the event log, by a cursor for each webhook | HTTPS requests to receivers; how far each has come |
| `loops.traces` | tasks that have ended, where traces go somewhere | spans of stream, task and steps |
| `loops.samples` | what nodes have measured, in memory | rows of a file of their own, for people |
| `policy_engine` | questions about tenants' requests, where there is one | answers; its processes are started again |
| `loops.liveness` | the clock | sessions of silent nodes, and of expired certificates, closed |

If one of them ends by an error, the process ends.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.base.errors import HostlerError, error
from hostler.base.version import said_by
from hostler.control import store_commands

if TYPE_CHECKING:
    from hostler.control.engine import Engine
    from hostler.control.kernel.commands import Actor
    from hostler.control.store.records import Principal

DEFAULT_CONFIG = Path("/etc/hostler-control/control.toml")
EXIT_REFUSED, EXIT_USAGE = 1, 2
ROLES = ("platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer", "auditor")


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
    parser.add_argument("--version", action="version", version=said_by("hostler-control"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _command(commands, "init", _init, "Check keys and configuration, and make the store.")
    _command(commands, "serve", _serve, "Run the control plane until it is told to stop.")
    summary = "Take up the epoch of a keyset made by 'hostler pki recover', after the store was restored."
    _command(commands, "recover", _recover, summary)
    _command(commands, "config", _config, "Every configuration value and where it comes from.")
    _principals(commands)
    _policy(commands)
    store_commands.add(commands, _command)
    return parser


def _principals(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "Who may call the API; works on the store itself, while the control plane is not running."
    group = commands.add_parser("principals", help=summary, description=summary)
    actions = group.add_subparsers(required=True, metavar="COMMAND")
    adding = _command(actions, "add", _add_principal, "Make a principal and its bearer token.")
    adding.add_argument("name")
    adding.add_argument("--role", required=True, choices=ROLES)
    adding.add_argument("--org", default="", help="tenant the role is limited to")
    adding.add_argument("--project", default="", help="project the role is limited to")
    adding.add_argument("--valid-days", type=int, default=365)
    adding.add_argument(
        "--token-out", type=Path, required=True, help="file for the bearer token, mode 0600; - prints it"
    )
    _command(actions, "list", _list_principals, "Names, roles and scopes.")
    _command(actions, "revoke", _revoke_principal, "End a principal's token.").add_argument("name")


def _policy(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "The policy engine's Rego files, tried out without a control plane."
    group = commands.add_parser("policy", help=summary, description=summary)
    actions = group.add_subparsers(required=True, metavar="COMMAND")
    testing = _command(actions, "test", _test_policy, "What the engine says to a question; exits 1 when it refuses.")
    testing.add_argument("question", type=Path, help="a question as JSON; - reads it from the standard input")
    testing.add_argument(
        "--file", type=Path, action="append", help="a Rego file, instead of those of the configuration"
    )
    testing.add_argument("--query", default="", help="another rule than the configured one")
    _command(actions, "question", _example_question, "A question to start from, with all that a policy may look at.")


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, function: object, summary: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=summary)
    command.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="control.toml [%(default)s]")
    command.set_defaults(run=function)
    return command


def _init(options: argparse.Namespace) -> int:
    from hostler.control.config import load

    epoch = _with_engine(options.config, _epoch)
    print(f"store ready: {load(options.config).store_path}, epoch {epoch}")  # noqa: T201
    return 0


async def _epoch(engine: "Engine") -> int:
    return engine.control_epoch


def _recover(options: argparse.Namespace) -> int:
    """Every task that was under way is asked for again under the new epoch; nodes that ran it say what came of it."""
    from hostler.control.config import load
    from hostler.control.kernel.commands import RecoverEpoch
    from hostler.control.service import open_engine

    async def run() -> tuple[int, int]:
        engine, keys = await open_engine(load(options.config), recovering=True)
        try:
            epoch = keys.trust.control_epoch
            return epoch, await engine.execute(RecoverEpoch(actor=_system(), control_epoch=epoch))
        finally:
            await engine.close()

    epoch, asked = asyncio.run(run())
    print(f"epoch {epoch} is open; {asked} tasks will be asked for again; start hostler-control now")  # noqa: T201
    return 0


def _config(options: argparse.Namespace) -> int:
    from hostler.base.config import describe, read_toml
    from hostler.control.config import load

    for name, value, origin in describe(load(options.config), read_toml(options.config)):
        print(f"{name:28} {value!r:40} {origin}")  # noqa: T201
    return 0


def _add_principal(options: argparse.Namespace) -> int:
    from hostler.base.clock import SystemClock
    from hostler.control.kernel.commands import CreatePrincipal
    from hostler.pki.storage import write_private
    from hostler.pki.tokens import new_bearer_token

    token = new_bearer_token()
    command = CreatePrincipal(
        actor=_system(),
        name=options.name,
        token_sha256=token.sha256,
        role=options.role,
        org_id=options.org,
        project_id=options.project,
        expires_at_ms=SystemClock().now_ms() + options.valid_days * 86_400_000,
    )
    _with_engine(options.config, lambda engine: engine.execute(command))
    if str(options.token_out) == "-":
        print(token.text)  # noqa: T201
        return 0
    write_private(options.token_out, token.text.encode())
    print(f"made {options.role} {options.name}; its token is in {options.token_out}")  # noqa: T201
    return 0


def _list_principals(options: argparse.Namespace) -> int:
    for each in _with_engine(options.config, _all_principals):
        scope = "/".join(part for part in (each.org_id, each.project_id) if part) or "everything"
        print(f"{each.name:32} {each.role:16} {scope:32} {each.state}")  # noqa: T201
    return 0


async def _all_principals(engine: "Engine") -> "list[Principal]":
    page = await engine.reader.principals("", 1000)
    found = list(page.items)
    while page.next_cursor:
        page = await engine.reader.principals(page.next_cursor, 1000)
        found += page.items
    return found


def _revoke_principal(options: argparse.Namespace) -> int:
    from hostler.control.kernel.commands import RevokePrincipal

    command = RevokePrincipal(actor=_system(), name=options.name)
    _with_engine(options.config, lambda engine: engine.execute(command))
    print(f"revoked {options.name}")  # noqa: T201
    return 0


def _test_policy(options: argparse.Namespace) -> int:
    from hostler.control.config import load
    from hostler.control.policy_engine import trial

    return trial.test(options, lambda: load(options.config).policy_engine)


def _example_question(options: argparse.Namespace) -> int:
    from hostler.control.policy_engine import trial

    return trial.question(options)


def _system() -> "Actor":
    from hostler.control.kernel.commands import Actor

    return Actor(kind="system", name="hostler-control", role="platform_admin")


def _with_engine(path: Path, work: Callable[["Engine"], Awaitable[Any]]) -> Any:
    """Opens the store, does one thing with it, and closes it."""
    from hostler.control.config import load
    from hostler.control.service import open_engine

    async def run() -> Any:
        engine, _ = await open_engine(load(path))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def _serve(options: argparse.Namespace) -> int:
    from hostler.base import logs
    from hostler.control import service
    from hostler.control.config import load
    from hostler.pki.no_core import leave_no_core

    leave_no_core()
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
