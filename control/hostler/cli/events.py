"""`hostler events`: what happens, as it happens."""

import json
from datetime import UTC, datetime
from typing import Any

import click

from hostler.cli.client import Client
from hostler.cli.output import guarded, output_option
from hostler.cli.settings import Settings

PATH = "/api/v1/events"
_SHOWN = ("node_id", "operation_id", "resource_name")


@click.command(name="events")
@click.option("--type", "type_", default="", help="one type, such as node.lost, or a family, such as node")
@click.option("--follow", "-f", is_flag=True, help="go on as they come, until interrupted")
@click.option("--after", type=click.IntRange(0), default=0, help="id of the last event that was seen")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="how many at most")
@output_option
@click.pass_obj
@guarded
def command(settings: Settings, type_: str, follow: bool, after: int, limit: int, output: str) -> None:
    """Events of your scope, oldest first; with --project those of one project. docs/events.md lists the types.

    \b
    hostler events --type node --follow
    hostler --project train events --type operation.failed
    """
    client = Client(settings)
    query = {"type": type_, "project_id": settings.project}
    if follow:
        try:
            for event in client.events(PATH, str(after or ""), follow="true", **{k: v for k, v in query.items() if v}):
                show(event.data, output)
        except KeyboardInterrupt:
            return
        return
    left = limit
    for item in client.pages(PATH, page_size=min(limit, 1000), **query):
        if item["id"] <= after:
            continue
        show(item, output)
        left -= 1
        if not left:
            return


def show(event: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(event, separators=(",", ":")))
        return
    at = datetime.fromtimestamp(event["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    about = next((event[name] for name in _SHOWN if event[name]), "")
    code = f"  [{event['error_code']}]" if event["error_code"] else ""
    click.echo(f"{event['id']:>8}  {at}  {event['type']:28}  {about}{code}")
