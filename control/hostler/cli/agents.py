"""`hostler agents`: which agents nodes run, what they should run, and the runs that bring it there."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from hostler.cli.agents_show import SAFETY, SAFETY_HELP, print_lifecycle, print_run, run_rows
from hostler.cli.client import Client, quoted
from hostler.cli.output import (
    EXIT_REFUSED,
    check_target,
    guarded,
    harmless,
    output_option,
    print_done,
    print_json,
    table,
)
from hostler.cli.settings import Settings

ADMIN = "/api/v1/admin"
RUNS = f"{ADMIN}/agent-runs"
MODES = ("rebootstrap", "manual_install", "reimage")
SCENARIOS = ("in_place_upgrade", "repair_reinstall", "drift_reconcile", "certificate_repair", "bootstrap_install")
_MODE_HELP = "the node changes itself; you type what is printed; or the host is installed anew"
DRIFTS = ("in_sync", "version_drift", "config_drift", "certificate_only_repair_needed", "unknown")
RUN_STATES = (
    *("waiting", "delivering", "trial", "awaiting_operator", "verifying"),
    *("succeeded", "failed", "rolled_back", "canceled"),
)
BADGES = ("Current", "Outdated", "Config drift", "Cert repair", "Unknown build")


@click.group(name="agents")
def command() -> None:
    """Which agents nodes run, what they should run, and bringing versions to them (docs/lifecycle.md)."""


@command.command(name="list")
@click.option("--badge", type=click.Choice([*BADGES, "drift"]), help="only nodes with this; drift: all but Current")
@click.option("--drift", type=click.Choice(DRIFTS), help="only nodes whose report says this")
@click.option("--channel", type=click.Choice(["stable", "candidate", "pinned"]), help="only nodes that follow it")
@output_option
@click.pass_obj
@guarded
def list_agents(settings: Settings, output: str, **chosen: str | None) -> None:
    """List nodes with their agents; the counts above are over all nodes."""
    client, query = Client(settings), {name: value for name, value in chosen.items() if value}
    summary = client.call("GET", f"{ADMIN}/nodes", page_size=1)["summary"]
    items = list(client.pages(f"{ADMIN}/nodes", page_size=200, **query))
    if output == "json":
        print_json({"summary": summary, "items": items})
        return
    words = (("Agent current", "agent_current"), ("Agent drift", "agent_drift"), ("Unknown build", "unknown_build"))
    click.echo("   ".join(f"{word} {summary[name]}" for word, name in words))
    rows = []
    for node in items:
        agent = node["agent"]
        rows.append(
            (
                node["name"],
                node["connection"],
                agent["badge"],
                agent["reported_agent_version"],
                agent["desired_agent_version"],
                agent["agent_channel"],
                agent["run_state"] if agent["run_state"] not in ("succeeded", "canceled") else "",
                agent["waiting_for"],
            )
        )
    table(("NODE", "STATE", "BADGE", "RUNS", "WANTED", "CHANNEL", "RUN", "WAITS FOR"), rows)


@command.command()
@click.argument("node")
@output_option
@click.pass_obj
@guarded
def show(settings: Settings, node: str, output: str) -> None:
    """Show what a node's agent should be, what it is, the evidence of its drift, and its latest run."""
    found = Client(settings).call("GET", _lifecycle(node))
    if output == "json":
        print_json(found)
    else:
        print_lifecycle(found)


@command.command()
@click.argument("node")
@click.option("--to", "version", default="", help="version to bring [the one that the node should run]")
@click.option("--mode", type=click.Choice(MODES), default=MODES[0], show_default=True, help=_MODE_HELP)
@click.option(
    "--scenario", type=click.Choice(SCENARIOS), default=SCENARIOS[0], show_default=True, help="what it is for"
)
@click.option("--safety", type=click.Choice(SAFETY), default=SAFETY[0], show_default=True, help=SAFETY_HELP)
@click.option("--provider", default="", help="for a reimage: cloud-init or maas [cloud-init]")
@click.option("--timeout-minutes", type=click.IntRange(1, 129_600), help="how long it may take in all")
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), help="write the document here, mode 0600")
@click.option("--watch/--no-watch", default=True, show_default=True, help="follow until it ends, or people are needed")
@output_option
@click.pass_obj
@guarded
def upgrade(settings: Settings, node: str, target: Path | None, watch: bool, output: str, **options: Any) -> None:
    """Bring a version to NODE: by itself, by hand, or by installing the host anew.

    \b
    hostler agents upgrade gpu-1 --to 1.2.0 --safety drain
    hostler agents upgrade gpu-1 --scenario repair_reinstall
    hostler agents upgrade gpu-1 --mode reimage --to 1.2.0 -o user-data

    Exit code 1 if it ended and did not succeed. What people have to do is printed; that run ends when the agent
    reports back: 'hostler agents runs RUN --watch'.
    """
    body = {
        "mode": options["mode"],
        "scenario": options["scenario"],
        "target_version": options["version"],
        "safety_policy": options["safety"],
        "provider": options["provider"],
        "timeout_seconds": (options["timeout_minutes"] or 0) * 60,
    }
    check_target(target)
    client = Client(settings)
    made = client.call("POST", _lifecycle(node), body=body)
    _keep(made["document"], target, output)
    if output == "json" and (not watch or (made["document"] and not target)):  # it is shown once
        print_json(made | ({"document": None} if target else {}))
        return
    _follow(client, made["run"], output, watch=watch and made["run"]["state"] != "awaiting_operator")


def _keep(document: dict[str, Any] | None, target: Path | None, output: str) -> None:
    """It is shown once; to a file where one is named, as it holds a token."""
    if document is None:
        return
    content = document["content"]
    text = content if isinstance(content, str) else urlencode(content)  # a form, as curl --data sends it
    if target is not None:
        from hostler.pki.storage import write_private

        write_private(target, text.encode())
        click.echo(f"wrote {target} ({document['media_type']}); it holds a one-use token", err=True)
    elif output != "json":
        click.echo(text)


def _follow(client: Client, run: dict[str, Any], output: str, *, watch: bool) -> None:
    quiet = output == "json"
    if watch:
        for event in client.events(f"{RUNS}/{quoted(run['run_id'])}/events"):
            run = event.data
            if not quiet:
                click.echo(harmless(_line(run)))
    run = client.call("GET", f"{RUNS}/{quoted(run['run_id'])}")
    if quiet:
        print_json(run)
    elif not (watch and run["finished_at_ms"]):
        print_run(run)
    if run["state"] in ("failed", "rolled_back", "canceled"):
        raise SystemExit(EXIT_REFUSED)


def _line(run: dict[str, Any]) -> str:
    waits = f" ({run['waiting_for']})" if run["waiting_for"] else ""
    held = f"  {', '.join(run['checks'])}" if run["checks"] else ""
    why = f"  {run['error_message']} [{run['error_code']}]" if run["error_code"] else ""
    return f"{run['run_id']}  {run['node_name']}  {run['state']}{waits}{held}{why}"


@command.command()
@click.argument("run_id", required=False)
@click.option("--node", default="", help="only of this node, by name or id")
@click.option("--state", type=click.Choice(RUN_STATES), help="only those in this state")
@click.option("--watch", is_flag=True, help="follow the run until it ends")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="how many at most")
@output_option
@click.pass_obj
@guarded
def runs(settings: Settings, run_id: str | None, watch: bool, limit: int, output: str, **chosen: str | None) -> None:
    """List lifecycle runs, newest first, or show the one named."""
    from itertools import islice

    client = Client(settings)
    if run_id:
        _follow(client, client.call("GET", f"{RUNS}/{quoted(run_id)}"), output, watch=watch)
        return
    pages = client.pages(RUNS, page_size=min(limit, 200), node_id=chosen["node"], state=chosen["state"])
    items = list(islice(pages, limit))
    if output == "json":
        print_json(items)
        return
    table(("RUN", "NODE", "MODE", "SCENARIO", "FROM", "TO", "STATE", "WAITS FOR", "ERROR"), run_rows(items))


@command.command()
@click.argument("run_id")
@click.option("--reason", default="", help="for the audit")
@output_option
@click.pass_obj
@guarded
def cancel(settings: Settings, run_id: str, reason: str, output: str) -> None:
    """End a run that has not begun to change its node."""
    done = Client(settings).call("POST", f"{RUNS}/{quoted(run_id)}/cancel", body={"reason": reason})
    print_done(done, output, f"{run_id} is {done['state']}")


@command.group(invoke_without_command=True)
@click.pass_context
@guarded
def channels(ctx: click.Context) -> None:
    """The channels and what their nodes should run."""
    if ctx.invoked_subcommand is not None:
        return
    items = Client(ctx.obj).call("GET", f"{ADMIN}/agent-channels")["items"]
    rows = [(each["channel"], each["version"] or "none", each["nodes"], each["changed_by"]) for each in items]
    table(("CHANNEL", "VERSION", "NODES", "SET BY"), rows)


@channels.command(name="set")
@click.argument("channel", type=click.Choice(["stable", "candidate"]))
@click.argument("version")
@output_option
@click.pass_obj
@guarded
def set_channel(settings: Settings, channel: str, version: str, output: str) -> None:
    """Say what the nodes of CHANNEL should run. Nothing is delivered by that alone."""
    done = Client(settings).call("PUT", f"{ADMIN}/agent-channels/{quoted(channel)}", body={"version": version})
    text = (
        f"{channel} is {version} now; {done['nodes']} nodes should run it: see 'hostler agents list --badge Outdated'"
    )
    print_done(done, output, text)


@command.command()
@click.argument("node")
@click.argument("version")
@output_option
@click.pass_obj
@guarded
def pin(settings: Settings, node: str, version: str, output: str) -> None:
    """Have NODE follow no channel but this version."""
    _follow_channel(settings, node, {"channel": "pinned", "version": version}, output)


@command.command()
@click.argument("node")
@click.argument("channel", type=click.Choice(["stable", "candidate"]))
@output_option
@click.pass_obj
@guarded
def follow(settings: Settings, node: str, channel: str, output: str) -> None:
    """Have NODE follow CHANNEL; ends a pin."""
    _follow_channel(settings, node, {"channel": channel}, output)


def _follow_channel(settings: Settings, node: str, body: dict[str, str], output: str) -> None:
    done = Client(settings).call("PUT", f"{ADMIN}/nodes/{quoted(node)}/agent-channel", body=body)
    wanted = done["desired_agent_version"] or "any version"
    print_done(done, output, f"{node} follows {done['channel']}: it should run {wanted}")


@command.command()
@output_option
@click.pass_obj
@guarded
def releases(settings: Settings, output: str) -> None:
    """The releases that were published, newest first."""
    items = list(Client(settings).pages(f"{ADMIN}/agent-releases", page_size=200))
    if output == "json":
        print_json(items)
        return
    rows = [
        (
            each["version"],
            each["suite"],
            ",".join(each["channels"]) or "withdrawn",
            each["commit_id"][:12],
            each["sha256"][:12],
            each["notes"],
        )
        for each in items
    ]
    table(("VERSION", "SUITE", "CHANNELS", "COMMIT", "SHA256", "NOTES"), rows)


def _lifecycle(node: str) -> str:
    return f"{ADMIN}/nodes/{quoted(node)}/agent-lifecycle"
