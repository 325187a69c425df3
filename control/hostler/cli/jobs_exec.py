"""`hostler jobs exec` and `hostler jobs profile`: into running tasks (API-26)."""

import sys
from typing import Any

import click

from hostler.cli.client import Client, quoted
from hostler.cli.jobs_api import client_of, job_path, resolve
from hostler.cli.output import EXIT_REFUSED, guarded, output_option, print_json, table
from hostler.cli.settings import Settings


def register(group: click.Group) -> None:
    """Adds the commands of this module to `hostler jobs`."""
    group.add_command(run)
    group.add_command(profile)


@click.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("job")
@click.option("--task", "task_index", type=click.IntRange(0), default=0, show_default=True, help="index of the task")
@click.option("--stdin", "-i", is_flag=True, help="pass this command's standard input on")
@click.option("--tty", "-t", is_flag=True, help="give the program a terminal")
@click.argument("command", nargs=-1, required=True)
@click.pass_obj
@guarded
def run(settings: Settings, job: str, task_index: int, stdin: bool, tty: bool, command: tuple[str, ...]) -> None:
    """Run a program inside a running task. Its exit code is this command's own.

    \b
    A shell:    hostler jobs exec -it JOB -- bash
    Copy out:   hostler jobs exec JOB --task 3 -- tar c /results > results.tar
    """
    from hostler.cli.relay import Attached, window_size

    if tty and not sys.stdin.isatty():
        raise click.UsageError("--tty needs a terminal on standard input")
    rows, columns = window_size() if tty else (24, 80)
    client = client_of(settings)
    body = {"command": command, "task_index": task_index, "tty": tty, "rows": rows, "columns": columns}
    made = client.call("POST", f"{job_path(settings, resolve(client, settings, job))}/exec", body=body)
    client.close()
    sys.exit(Attached(settings, made["path"], tty=tty, stdin=stdin).run())


@click.command()
@click.argument("job")
@click.option("--task", "task_index", type=click.IntRange(0), default=0, show_default=True, help="index of the task")
@click.option(
    "--kind",
    type=click.Choice(["cpu", "threads", "memory"]),
    default="cpu",
    show_default=True,
    help="what is looked at",
)
@click.option(
    "--seconds", type=click.IntRange(1, 300), default=10, show_default=True, help="for how long it is looked at"
)
@output_option
@click.pass_obj
@guarded
def profile(settings: Settings, job: str, task_index: int, kind: str, seconds: int, output: str) -> None:
    """Watch the processes of a running task, and show what they did."""
    client = client_of(settings)
    body = {"task_index": task_index, "kind": kind, "seconds": seconds}
    made = client.call("POST", f"{job_path(settings, resolve(client, settings, job))}/profile", body=body)
    operation = _ended(client, settings, made["operation_id"])
    if operation["status"] != "succeeded":
        click.echo(f"{operation['error_code']}: {operation['error_message']}", err=True)
        sys.exit(EXIT_REFUSED)
    (step,) = operation["tasks"][0]["steps"]
    found = step["outputs"]["profile"]
    if output == "json":
        print_json(found)
        return
    for name, value in found["cgroup"].items():
        click.echo(f"{name:14} {value}")
    if found["top"]:
        headings = list(found["top"][0])
        table(headings, [[str(row[name]) for name in headings] for row in found["top"]])


def _ended(client: Client, settings: Settings, operation_id: str) -> dict[str, Any]:
    path = f"/api/v1/projects/{quoted(settings.project)}/operations/{quoted(operation_id)}"
    for _ in client.events(f"{path}/events"):
        pass
    operation: dict[str, Any] = client.call("GET", path)
    return operation
