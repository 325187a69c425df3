"""`hostler nodes`: what there is, and how more of it joins."""

import time
from pathlib import Path
from typing import Any

import click

from hostler.cli import node_policy, node_telemetry
from hostler.cli.client import Client, quoted
from hostler.cli.operations_api import project_of, split_pairs
from hostler.cli.output import check_target, guarded, harmless, output_option, print_done, print_json, table
from hostler.cli.settings import Settings


@click.group(name="nodes")
def command() -> None:
    """See nodes, make enrolment tokens, cordon, drain, quarantine, revoke."""


node_policy.add_to(command)
command.add_command(node_telemetry.telemetry)


@command.command(name="list")
@click.option("--all", "everything", is_flag=True, help="nodes of every project (administrators)")
@output_option
@click.pass_obj
@guarded
def list_nodes(settings: Settings, everything: bool, output: str) -> None:
    """List nodes with their state, versions and when they were last seen."""
    path = "/api/v1/admin/nodes" if everything else f"/api/v1/projects/{quoted(project_of(settings))}/nodes"
    items = list(Client(settings).pages(path, page_size=200))
    if output == "json":
        print_json(items)
        return
    rows = [
        (
            n["name"],
            n["node_id"],
            _state(n),
            n["health"],
            n["scheduling"],
            n["agent_version"],
            n["project_id"],
            n["storage"],
            _ago(n),
        )
        for n in items
    ]
    table(("NAME", "NODE", "STATE", "HEALTH", "SCHEDULING", "AGENT", "PROJECT", "STORAGE", "LAST SEEN"), rows)


@command.command()
@click.argument("node")
@output_option
@click.pass_obj
@guarded
def get(settings: Settings, node: str, output: str) -> None:
    """Show one node, by name or id, with its newest measurements."""
    found = Client(settings).call("GET", f"/api/v1/admin/nodes/{quoted(node)}")
    if output == "json":
        print_json(found)
        return
    measured = found.pop("telemetry", None)
    for name, value in found.items():
        click.echo(f"{name:18} {harmless(str(value))}")
    click.echo(f"{'telemetry':18} {node_telemetry.summary(measured) if measured else 'none yet'}")


@command.command()
@click.argument("name")
@click.option("--org", default="", help="tenant that will own the node")
@click.option("--pool", is_flag=True, help="the node belongs to no tenant and is lent by allocations")
@click.option("--label", "labels", multiple=True, help="label of the node, name=value (repeatable)")
@click.option(
    "--valid-minutes", type=click.IntRange(1, 43_200), default=60, show_default=True, help="how long it can be used"
)
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), help="write the token here, mode 0600")
@output_option
@click.pass_obj
@guarded
def token(settings: Settings, name: str, target: Path | None, output: str, **options: Any) -> None:
    """Make a one-use enrolment token for the node NAME of the project, or of the pool.

    On the node: hostler-agent enroll --token-file FILE. The token is shown once and stored only as a hash.
    """
    if bool(options["org"]) == options["pool"]:
        raise click.UsageError("name the tenant that will own the node with --org, or --pool")
    body = {
        "node_name": name,
        "org_id": options["org"],
        "project_id": "" if options["pool"] else project_of(settings),
        "pool": options["pool"],
        "labels": split_pairs(options["labels"], "label"),
        "valid_seconds": options["valid_minutes"] * 60,
    }
    check_target(target)
    made = Client(settings).call("POST", "/api/v1/admin/enrolment-tokens", body=body)
    if target:
        from hostler.pki.storage import write_private

        write_private(target, made["token"].encode())
        made = {**made, "token": ""}
    if output == "json":
        print_json(made)
    else:
        click.echo(f"wrote {target}" if target else made["token"])


@command.command()
@click.argument("node")
@click.confirmation_option(prompt="The node loses its identity at once. Revoke it?")
@output_option
@click.pass_obj
@guarded
def revoke(settings: Settings, node: str, output: str) -> None:
    """Revoke a node: its streams are closed and its certificate is refused from now on."""
    done = Client(settings).call("POST", f"/api/v1/admin/nodes/{quoted(node)}/revoke")
    print_done(done, output, f"revoked {node}")


@command.command()
@click.argument("node")
@output_option
@click.pass_obj
@guarded
def release(settings: Settings, node: str, output: str) -> None:
    """End the hold of a node, such as one whose identity was seen in two places, once you know why."""
    done = Client(settings).call("POST", f"/api/v1/admin/nodes/{quoted(node)}/release")
    print_done(done, output, f"released {node}")


def _state(node: dict[str, Any]) -> str:
    """What was decided about the node where that matters, else how its connection stands."""
    if node["state"] != "active":
        return str(node["state"])
    return str(node["hold"] or node["drift"] or node["connection"])


def _ago(node: dict[str, Any]) -> str:
    seen = node.get("last_seen_ms") or 0
    if not seen:
        return "never"
    seconds = max(0, int(time.time() - seen / 1000))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
