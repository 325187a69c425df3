"""`hostler jobs logs`."""

import time
from collections.abc import Iterator
from typing import Any

import click

from hostler.cli import jobs_api as api
from hostler.cli.jobs_options import SECONDS
from hostler.cli.output import guarded, output_option
from hostler.cli.settings import Settings


@click.command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="go on until the job ends")
@click.option("--task", type=click.IntRange(min=0), help="only of this task, by its number")
@click.option("--attempt", type=click.IntRange(min=1), help="only of tries with this number")
@click.option("--since", type=SECONDS, help="only what was said in the last 10m, 2h, …")
@output_option
@click.pass_obj
@guarded
def logs(settings: Settings, job: str, output: str, **options: Any) -> None:
    """Print what the tasks of JOB, an id or a path, have written.

    With more than one task each line begins with the task's number.

    \b
    hostler jobs logs -f /ann/train --task 0
    hostler jobs logs /ann/train --task 3 --attempt 1
    """
    from hostler.cli.jobs_follow import Printer

    client = api.client_of(settings)
    job_id = api.resolve(client, settings, job)
    printer, path = Printer(client, settings, job_id), api.logs_path(settings, job_id)
    asked = {"task_index": options["task"], "attempt": options["attempt"]}
    filters = {name: str(value) for name, value in asked.items() if value is not None}
    since_ms = 0 if options["since"] is None else int(time.time() * 1000) - options["since"] * 1000
    lines: Iterator[Any]
    if options["follow"]:
        lines = (event.data for event in client.events(path, follow="true", **filters))
    else:
        lines = client.pages(path, page_size=1000, **filters)
    try:
        for line in lines:
            if line["at_ms"] >= since_ms:
                _print_json_line(line) if output == "json" else printer.print(line)
    except KeyboardInterrupt:
        click.echo("", err=True)  # looking away is no failure


def _print_json_line(line: dict[str, Any]) -> None:
    import msgspec

    click.echo(msgspec.json.encode(line).decode())
