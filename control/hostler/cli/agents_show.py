"""How an agent and a lifecycle run are printed, and when a node may change."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click

from hostler.cli.output import harmless

SAFETY = ("idle", "drain", "force")
SAFETY_HELP = "when the node may change: once nothing runs there; the same, and nothing new comes meanwhile; or now"
_SHOWN = (
    "badge",
    "reported_agent_version",
    "desired_agent_version",
    "agent_channel",
    "agent_commit",
    "suite",
    "drift_state",
    "desired_delivery_mode",
    "last_delivery_result",
    "trial_version",
)


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at_ms else "never"


def print_lifecycle(found: dict[str, Any]) -> None:
    agent, report = found["agent"], found["report"]
    _pairs([("node", f"{found['name']} ({found['node_id']})"), *((name, agent[name]) for name in _SHOWN)])
    _pairs([("looked at itself", moment(agent["last_probe_at_ms"])), ("next", moment(agent["next_probe_at_ms"]))])
    for each in report["evidence"] if report else ():
        differs = f"{each['found'] or 'nothing'}, not {each['expected'] or 'nothing'}"
        click.echo(harmless(f"  {each['kind']} {each['name']}: {differs}"))
    for slot in report["slots"] if report else ():
        click.echo(harmless(f"  slot {slot['version']} {slot['state']}"))
    if found["latest_run"]:
        click.echo("")
        print_run(found["latest_run"])


def print_run(run: dict[str, Any]) -> None:
    """A run, and what people have to do where it waits for them."""
    waits = f" ({run['waiting_for']})" if run["waiting_for"] else ""
    _pairs(
        [
            ("run", run["run_id"]),
            ("node", run["node_name"]),
            ("how", f"{run['scenario']} by {run['mode']}, {run['safety_policy']}"),
            ("versions", f"{run['from_version'] or 'none'} to {run['target_version'] or 'the same'}"),
            ("state", f"{run['state']}{waits}"),
            ("checks", ", ".join(f"{name} {moment(at)}" for name, at in run["checks"].items()) or "none yet"),
        ]
    )
    if run["error_code"]:
        _pairs([("error", f"{run['error_message']} [{run['error_code']}]")])
    if not run["finished_at_ms"]:
        _print_next(run["next_action"])


def _print_next(action: dict[str, Any]) -> None:
    if not action:
        return
    click.echo("")
    click.echo(harmless(f"{action['action']}: {action['reason']}"))
    if action.get("instead"):
        click.echo(f"  use --mode {' or --mode '.join(action['instead'])}")
    if "check_command" in action:
        click.echo("where you have hostler and trust.json:")
        click.echo(harmless(f"  {action['check_command']}"))
        click.echo("then on the host:")
    for line in action.get("commands", ()):
        click.echo(harmless(f"  {line}"))


def run_rows(items: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    names = ("run_id", "node_name", "mode", "scenario", "from_version", "target_version", "state", "waiting_for")
    return [(*(run[name] for name in names), run["error_code"]) for run in items]


def _pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    for name, value in pairs:
        click.echo(f"{name:24} {harmless(str(value)) or '-'}")
