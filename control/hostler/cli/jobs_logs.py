"""`hostler jobs logs`."""

import time
from collections.abc import Iterator
from typing import Any

import click

from hostler.cli import jobs_api as api
from hostler.cli.client import Client
from hostler.cli.jobs_options import SECONDS
from hostler.cli.output import guarded, output_option
from hostler.cli.settings import Settings


@click.command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="go on until the job ends")
@click.option("--task", type=click.IntRange(min=0), help="only of this task, by its number")
@click.option("--attempt", type=click.IntRange(min=1), help="only of this try; with --task")
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
    from hostler.cli.jobs_follow import Printer, chosen

    if options["attempt"] is not None and options["task"] is None:
        raise click.UsageError("--attempt is of one task: name it with --task")
    client = api.client_of(settings)
    job_id = api.resolve(client, settings, job)
    printer, path = Printer(client, settings, job_id), api.logs_path(settings, job_id)
    attempts = _attempts(client, settings, job_id, options["task"], options["attempt"])
    since_ms = 0 if options["since"] is None else int(time.time() * 1000) - options["since"] * 1000
    lines: Iterator[Any]
    if options["follow"]:
        lines = (event.data for event in client.events(path, follow="true"))
    else:
        lines = client.pages(path, page_size=1000)
    try:
        for line in chosen(lines, printer.index, task=options["task"], attempts=attempts, since_ms=since_ms):
            _print_json_line(line) if output == "json" else printer.print(line)
    except KeyboardInterrupt:
        click.echo("", err=True)  # looking away is no failure


def _attempts(client: Client, settings: Settings, job_id: str, task: int | None, number: int | None) -> set[str]:
    """The uid of that try; none for all."""
    if number is None:
        return set()
    found = [each for each in api.tasks_of(client, settings, job_id) if each["task_index"] == task]
    tries = [each for task_ in found for each in task_.get("attempts", ())]
    uids = {each["attempt_uid"] for each in tries if each.get("attempt_number") == number}
    if not uids:
        raise click.UsageError(f"task {task} of {job_id} has no try {number}")
    return uids


def _print_json_line(line: dict[str, Any]) -> None:
    import msgspec

    click.echo(msgspec.json.encode(line).decode())
