"""`hostler-agent`: enroll, run, status, config, receipts, resolve, policy, try."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.base.errors import HostlerError, error
from hostler.base.version import said_by

if TYPE_CHECKING:
    from hostler.agent.config import AgentConfig

DEFAULT_CONFIG = Path("/etc/hostler/agent.toml")
EXIT_REFUSED, EXIT_USAGE, EXIT_UNREACHABLE = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 3 control plane not reachable."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except HostlerError as err:
        print(f"error: {err.message} [{err.code}]", file=sys.stderr)  # noqa: T201
        if err.hint:
            print(f"  {err.hint}", file=sys.stderr)  # noqa: T201
        if err.code == "controller_unreachable":
            return EXIT_UNREACHABLE
        return EXIT_USAGE if err.code == "invalid_config" else EXIT_REFUSED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hostler-agent", description="The node agent: pulls signed tasks, judges them, runs them, proves it."
    )
    parser.add_argument("--version", action="version", version=said_by("hostler-agent"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="agent.toml [%(default)s]")
        command.set_defaults(run=function)
        return command

    enroll = add("enroll", _enroll, "Give this node its identity, with a one-use token.")
    enroll.add_argument("--token-file", required=True, help="file with the token, - for standard input")
    enroll.add_argument("--again", action="store_true", help="replace an existing identity")
    run = add("run", _run, "Run the agent until it is told to stop.")
    run.add_argument(
        "--session-socket", type=Path, help="wait here for 'hostler-agent session' [start a session process as a child]"
    )
    session = add("session", _session, "The network-facing part alone, without privileges; it knows no task.")
    session.add_argument("--session-socket", type=Path, required=True, help="socket of 'hostler-agent run'")
    add("trial", _trial, "Watch over a version on trial, and return from it. Started by systemd.")
    status = add("status", _status, "How the agent on this node stands.")
    status.add_argument("--json", action="store_true", help="print JSON")
    add("config", _config, "Every configuration value and where it comes from.")
    receipts = add("receipts", _receipts, "Write this node's receipt chain to a file, one a line.")
    receipts.add_argument("--file", "-o", type=Path, required=True, help="file to write")
    resolve = add("resolve", _resolve, "What an abstract step kind is on this node, and why. Exits 1 if it is nothing.")
    resolve.add_argument("kind", help="such as gpu.runtime.check")
    resolve.add_argument(
        "--capability", action="append", default=[], metavar="KEY=VALUE", help="ask as if this node had it"
    )
    resolve.add_argument("--json", action="store_true", help="print JSON")
    _policy(commands)
    _rehearsal(commands)
    return parser


def _rehearsal(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "Run a profile against a scratch root, with throwaway keys and no control plane. Exits 1 if it fails."
    command = commands.add_parser("try", help=summary, description=summary)
    command.add_argument("profiles", type=Path, help="profiles directory")
    command.add_argument("ref", metavar="TYPE@VERSION", help="definition in it")
    command.add_argument("--inputs-file", default="", help="JSON object, - for standard input")
    command.add_argument("--root", type=Path, help="scratch directory that stands for / [one that is removed again]")
    command.add_argument("--plan", action="store_true", help="only plan")
    command.add_argument("--allow-host", action="store_true", help="let steps reach this machine itself")
    command.add_argument(
        "--capability", action="append", default=[], metavar="KEY=VALUE", help="as if this machine had it"
    )
    command.add_argument("--json", action="store_true", help="print JSON at the end")
    command.set_defaults(run=_try)


def _try(options: argparse.Namespace) -> int:
    import msgspec

    from hostler.agent.rehearse import Rehearsal, read_inputs, rehearse

    wanted = Rehearsal(
        profiles=options.profiles,
        ref=options.ref,
        inputs=read_inputs(options.inputs_file),
        root=options.root,
        plan=options.plan,
        allow_host=options.allow_host,
        more=_pairs(options.capability),
    )
    told = asyncio.run(rehearse(wanted, (lambda _: None) if options.json else _say)).told
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    return 0 if told.ok else EXIT_REFUSED


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    if not all(key and equals for key, equals, _ in pairs):
        raise error("invalid_config", "--capability takes KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _policy(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "What this node would refuse, and why."
    group = commands.add_parser("policy", help=summary, description=summary)
    actions = group.add_subparsers(required=True, metavar="COMMAND")
    summary = "Judge an envelope gate by gate, without taking it. Exits 1 if it would be refused."
    check = actions.add_parser("check", help=summary, description=summary)
    check.add_argument("envelope", type=Path, help="file made by 'hostler operations envelope'")
    check.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="agent.toml [%(default)s]")
    check.add_argument("--at-ms", type=int, default=0, help="judge as of this moment (Unix milliseconds) [now]")
    check.add_argument("--as-new", action="store_true", help="as if this node had never seen the task")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    import msgspec

    from hostler.agent.config import load
    from hostler.agent.policy_check import check, read_envelope
    from hostler.base.clock import SystemClock

    envelope = read_envelope(options.envelope)
    config = load(options.config)
    judged = asyncio.run(check(config, envelope, SystemClock(), at_ms=options.at_ms, as_new=options.as_new))
    refused = [each for each in judged if each.verdict == "refused"]
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(judged) + b"\n")
    else:
        for each in judged:
            reason = f"{each.message} [{each.error_code}]" if each.error_code else each.message
            print(f"{each.gate:12} {each.verdict:12} {reason}".rstrip())  # noqa: T201
        print(f"refused by {refused[0].gate}: {refused[0].hint}" if refused else "would be taken")  # noqa: T201
    return EXIT_REFUSED if refused else 0


def _enroll(options: argparse.Namespace) -> int:
    from hostler.agent.config import load
    from hostler.base import logs
    from hostler.pki.no_core import leave_no_core

    leave_no_core()
    config = load(options.config)
    logs.set_up(config.log_format, config.log_level)
    is_stdin = options.token_file == "-"  # noqa: S105 - the usual name of standard input
    token = sys.stdin.read(4096) if is_stdin else _token_in(Path(options.token_file))
    node_id = asyncio.run(_enrol(config, token, again=options.again))
    print(f"enrolled as {node_id}; start the agent with: hostler-agent run --config {options.config}")  # noqa: T201
    return 0


def _token_in(path: Path) -> str:
    from hostler.pki.storage import read_private

    return read_private(path).decode(errors="replace")


async def _enrol(config: "AgentConfig", token: str, *, again: bool = False) -> str:
    """→ the node's id."""
    from hostler.agent.lifecycle.enroll import Enrolment, enroll
    from hostler.agent.outside.outside import Outside
    from hostler.agent.outside.spawn import Child, with_child
    from hostler.base.clock import SystemClock

    wanted = Enrolment(
        state_dir=config.state,
        trust_file=Path(config.trust_file),
        address=config.control.enroll_address,
        labels=config.labels,
    )

    async def work(outside: Outside) -> str:
        return (await enroll(outside.ask, wanted, token, SystemClock(), again=again)).node_id

    return await with_child(Child(config.session_user, config.log_format, config.log_level), work)


def _run(options: argparse.Namespace) -> int:
    from hostler.agent.config import load
    from hostler.agent.lifecycle.first_start import until_enrolled
    from hostler.base import logs
    from hostler.pki.no_core import leave_no_core

    leave_no_core()
    config = load(options.config)
    logs.set_up(config.log_format, config.log_level)

    async def enroll(token: str) -> None:
        await _enrol(config, token)

    async def run() -> None:
        from hostler.agent import daemon

        if config.token_file:
            await until_enrolled(config.state, Path(config.token_file), enroll, _token_in)
        await daemon.run(config, options.session_socket, options.config)

    asyncio.run(run())
    return 0


def _session(options: argparse.Namespace) -> int:
    """Reads no configuration: it is told everything over the socket, and may read nothing else."""
    from hostler.agent.outside.process import dial_runner
    from hostler.base import logs

    logs.set_up("auto", "info")
    dial_runner(options.session_socket)
    return 0


def _trial(options: argparse.Namespace) -> int:
    from hostler.agent.trial_run import run

    run(options.config)
    return 0


def _status(options: argparse.Namespace) -> int:
    import msgspec

    from hostler.agent.config import load

    path = load(options.config).state / "status.json"
    try:
        status = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError) as err:
        raise error("not_found", f"no agent has written {path}", hint="start it with 'hostler-agent run'") from err
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(status) + b"\n")
    else:
        for name, value in status.items():
            print(f"{name:24} {value}")  # noqa: T201
    return 0 if status["session"] == "connected" and not status["hold"] and not status["drift"] else EXIT_REFUSED


def _resolve(options: argparse.Namespace) -> int:
    import msgspec

    from hostler.agent.config import load
    from hostler.agent.resolve_check import explain, lines
    from hostler.base.clock import SystemClock

    more = _pairs(options.capability)
    explained = asyncio.run(explain(load(options.config), options.kind, more, SystemClock()))
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(explained) + b"\n")
    else:
        print("\n".join(lines(explained)))  # noqa: T201
    return EXIT_REFUSED if explained.error_code else 0


def _config(options: argparse.Namespace) -> int:
    from hostler.agent.config import load
    from hostler.base.config import describe, read_toml

    for name, value, origin in describe(load(options.config), read_toml(options.config)):
        print(f"{name:40} {value!r:40} {origin}")  # noqa: T201
    return 0


def _receipts(options: argparse.Namespace) -> int:
    from hostler.agent.config import load

    written = asyncio.run(_export(load(options.config).state / "journal.db", options.file))
    print(f"wrote {written} receipts to {options.file}")  # noqa: T201
    return 0


async def _export(journal_path: Path, target: Path) -> int:
    from hostler.agent.journal.journal import Journal
    from hostler.base.clock import SystemClock

    journal = await Journal.open(journal_path, SystemClock())
    written = 0
    try:
        with target.open("wb") as file:
            while page := journal.receipts(written, 1000):
                file.writelines(receipt + b"\n" for receipt in page)
                written += len(page)
    finally:
        await journal.close()
    return written


def console() -> None:
    sys.exit(main())
