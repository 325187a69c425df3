"""`hostler allocations`: ask for nodes of the pool, follow each node's chain, give them back."""

import sys
from itertools import islice
from typing import Any

import click

from hostler.cli import operations_api as api
from hostler.cli.client import Client, quoted
from hostler.cli.output import EXIT_REFUSED, guarded, output_option, print_done, print_json, styled, table
from hostler.cli.settings import Settings

STATES = ["requested", "provisioning", "active", "releasing", "released", "failed"]


@click.group(name="allocations")
def command() -> None:
    """Ask for nodes, follow them, give them back."""


def _path(settings: Settings, allocation_id: str = "") -> str:
    base = f"/api/v1/projects/{quoted(api.project_of(settings))}/allocations"
    return f"{base}/{quoted(allocation_id)}" if allocation_id else base


@command.command()
@click.option("--nodes", "count", type=click.IntRange(1, 1000), default=1, show_default=True, help="how many")
@click.option("--label", "labels", multiple=True, help="nodes by label, name=value (repeatable)")
@click.option("--node", "named", multiple=True, help="choose among these nodes (administrators; repeatable)")
@click.option("--input", "-i", "pairs", multiple=True, help="name=text, or name:=JSON (repeatable)")
@click.option("--input-file", type=click.File(), help="inputs as YAML or JSON, - for standard input")
@click.option("--profile", default="", metavar="TYPE@VERSION", help="provision profile  [the default of the server]")
@click.option("--external-id", default="", help="your own id; asking again with it gives the same allocation")
@click.option("--org", default="", help="tenant, where neither you nor the project have one yet")
@click.option("--watch/--no-watch", "follow", default=False, help="follow until it is active or has failed")
@output_option
@click.pass_obj
@guarded
def create(settings: Settings, count: int, follow: bool, output: str, **options: Any) -> None:
    """Ask for nodes of the pool; waits in line while too few are free."""
    client = Client(settings)
    body = {
        "node_count": count,
        "labels": api.split_pairs(options["labels"], "label"),
        "nodes": options["named"],
        "inputs": api.read_inputs(options["pairs"], options["input_file"]),
        "profile": options["profile"],
        "external_id": options["external_id"],
        "org_id": options["org"],
    }
    made = client.call("POST", _path(settings), body=body)
    if follow:
        _follow(client, settings, made["allocation_id"], "active", output)
    else:
        print_done(made, output, f"{made['allocation_id']}  {made['state']}")


@command.command(name="list")
@click.option("--all", "everything", is_flag=True, help="of every project (administrators)")
@click.option("--state", type=click.Choice(STATES), help="only those in it")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="how many at most")
@output_option
@click.pass_obj
@guarded
def list_allocations(settings: Settings, everything: bool, state: str | None, limit: int, output: str) -> None:
    """List allocations, newest first."""
    path = "/api/v1/admin/allocations" if everything else _path(settings)
    items = list(islice(Client(settings).pages(path, state=state, page_size=min(limit, 200)), limit))
    if output == "json":
        print_json(items)
        return
    rows = [
        (a["allocation_id"], a["state"], a["node_count"], a["project_id"], a["external_id"], a["error_code"])
        for a in items
    ]
    table(("ALLOCATION", "STATE", "NODES", "PROJECT", "EXTERNAL ID", "ERROR"), rows)


@command.command()
@click.argument("allocation_id")
@output_option
@click.pass_obj
@guarded
def show(settings: Settings, allocation_id: str, output: str) -> None:
    """Show an allocation: each node, and its chain with states and reasons."""
    found = Client(settings).call("GET", _path(settings, allocation_id))
    if output == "json":
        print_json(found)
    else:
        print_allocation(found)


@command.command()
@click.argument("allocation_id")
@click.option("--watch/--no-watch", "follow", default=False, help="follow until every node is clean, or one is stuck")
@output_option
@click.pass_obj
@guarded
def release(settings: Settings, allocation_id: str, follow: bool, output: str) -> None:
    """Give the nodes back: your operations on them end, access ends, and each node is cleaned and verified."""
    client = Client(settings)
    done = client.call("POST", f"{_path(settings, allocation_id)}/release")
    if follow:
        _follow(client, settings, allocation_id, "released", output)
    else:
        print_done(done, output, f"{allocation_id} is {done['state']}")


@command.command(name="force-release")
@click.argument("allocation_id")
@click.option("--reason", required=True, help="what the audit will say of it")
@output_option
@click.pass_obj
@guarded
def force_release(settings: Settings, allocation_id: str, reason: str, output: str) -> None:
    """Release from whatever state, and try failed links again (administrators)."""
    path = f"{_path(settings, allocation_id)}/force-release"
    done = Client(settings).call("POST", path, body={"reason": reason})
    print_done(done, output, f"{allocation_id} is {done['state']}")


@command.command()
@click.argument("allocation_id")
@output_option
@click.pass_obj
@guarded
def retry(settings: Settings, allocation_id: str, output: str) -> None:
    """Try the links that failed again, each from where it failed."""
    done = Client(settings).call("POST", f"{_path(settings, allocation_id)}/retry")
    print_done(done, output, f"{allocation_id} is {done['state']}")


@command.command()
@click.argument("allocation_id")
@click.option(
    "--until",
    type=click.Choice(["active", "released"]),
    default="released",
    show_default=True,
    help="the state to wait for",
)
@output_option
@click.pass_obj
@guarded
def watch(settings: Settings, allocation_id: str, until: str, output: str) -> None:
    """Follow an allocation. Exit code 0 only if it reached the state."""
    _follow(Client(settings), settings, allocation_id, until, output)


def _follow(client: Client, settings: Settings, allocation_id: str, until: str, output: str) -> None:
    """Prints what happens as it happens, then the allocation; stops at the state, or where it cannot be reached."""
    path = _path(settings, allocation_id)
    found: dict[str, Any] = client.call("GET", path)
    over = {until, "failed", "released"}
    if found["state"] not in over:
        for event in client.events(f"{path}/events"):
            if output == "text":
                click.echo(_line(event.data))
            # a retry's history holds an older failure: what counts is the state now
            if event.data["body"].get("state") in over:
                found = client.call("GET", path)
                if found["state"] in over:
                    break
        found = client.call("GET", path)
    if output == "json":
        print_json(found)
    else:
        print_allocation(found)
    if found["state"] != until:
        sys.exit(EXIT_REFUSED)


def _line(event: dict[str, Any]) -> str:
    body = event["body"]
    words = [event["type"], event.get("node_id", "")]
    words += [body.get("link", ""), body.get("link_state", ""), event.get("error_code", "")]
    return "  ".join(word for word in words if word)


def print_allocation(found: dict[str, Any]) -> None:
    """The allocation, its nodes, and the links of each with state and reason."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(soft_wrap=True)
    console.print(f"{found['allocation_id']}  {styled(found['state'])}  {escape(found['external_id'])}")
    if found["error_code"]:
        console.print(f"  [red]{found['error_code']}[/]: {escape(found['error_message'])}")
    for node in found["nodes"]:
        console.print(f"[bold]{escape(node['node_name'])}[/]  {styled(node['state'])}  health {styled(node['health'])}")
        for link in node["links"]:
            tries = f"  try {link['tries']}" if link["tries"] > 1 else ""
            console.print(f"  {link['link']:16} {styled(link['state'])}  {link['operation_id']}{tries}")
            if link["error_code"]:
                console.print(f"    [red]{link['error_code']}[/]: {escape(link['error_message'])}")
        if node["revoke_operation_id"]:
            console.print(f"  access revoked outside the chain: {node['revoke_operation_id']}")
