"""`hostler endpoints`: names under which running tasks can be reached."""

import time

import click

from hostler.cli import operations_api as api
from hostler.cli.client import Client, quoted
from hostler.cli.output import guarded, output_option, print_json, table
from hostler.cli.settings import Settings


@click.group(name="endpoints")
def command() -> None:
    """Names under which running tasks can be reached.

    \b
    hostler --project train endpoints list --namespace /ann/prepare
    """


@command.command(name="list")
@click.option("--namespace", default="", help="path of a root job, such as /ann/prepare")
@click.option("--name", default="", help="exactly this name")
@output_option
@click.pass_obj
@guarded
def listing(settings: Settings, namespace: str, name: str, output: str) -> None:
    """List the endpoints of the project whose lease and task still live."""
    path = f"/api/v1/projects/{quoted(api.project_of(settings))}/endpoints"
    items = list(Client(settings).pages(path, namespace=namespace, endpoint_name=name))
    if output == "json":
        print_json(items)
        return
    now_ms = int(time.time() * 1000)
    rows = [
        (item["namespace"], item["name"], item["address"], item["node_name"], _left(item["lease_deadline_ms"], now_ms))
        for item in items
    ]
    table(("namespace", "name", "address", "node", "lease"), rows)


def _left(deadline_ms: int | None, now_ms: int) -> str:
    return "for ever" if deadline_ms is None else f"{max(0, deadline_ms - now_ms) // 60_000} min"
