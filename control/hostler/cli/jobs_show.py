"""`hostler jobs list|show|tasks|explain`: what there is, where it runs, and why not."""

import time
from itertools import islice
from typing import Any

import click

from hostler.cli import jobs_api as api
from hostler.cli.output import guarded, harmless, output_option, print_json, styled, table
from hostler.cli.quantities import shown_bytes, shown_cpu, shown_seconds
from hostler.cli.settings import Settings


@click.command(name="list")
@click.option("--all", "-a", "everything", is_flag=True, help="also jobs that have ended")
@click.option("--state", "states", multiple=True, type=click.Choice(api.STATES), help="(repeatable)")
@click.option("--user", default="", help="only jobs of this user")
@click.option("--below", default="", metavar="PATH", help="only this job and the ones below it")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="how many at most, the newest")
@output_option
@click.pass_obj
@guarded
def list_jobs(settings: Settings, everything: bool, states: tuple[str, ...], output: str, **options: Any) -> None:
    """List jobs that have not ended, newest first; with --all every one."""
    wanted = states or (api.STATES if everything else api.OPEN)
    jobs = api.listed(api.client_of(settings), settings, wanted, options["below"].rstrip("/"))
    found = (job for job in jobs if options["user"] in ("", job["user"]))
    items = list(islice(found, options["limit"]))
    if output == "json":
        print_json(items)
        return
    rows = [
        (job["name"], job["state"], _counts(job), job["priority"], age(job["created_at_ms"]), job["job_id"])
        for job in items
    ]
    table(("JOB", "STATE", "TASKS", "PRIORITY", "AGE", "ID"), rows)


@click.command()
@click.argument("job")
@output_option
@click.pass_obj
@guarded
def show(settings: Settings, job: str, output: str) -> None:
    """Show JOB, an id or a path."""
    client = api.client_of(settings)
    found = client.call("GET", api.job_path(settings, api.resolve(client, settings, job)))
    if output == "json":
        print_json(found)
        return
    from rich.console import Console

    console = Console(soft_wrap=True)
    for name, value in _facts(found):
        console.print(f"{name:12} {styled(value)}")


@click.command()
@click.argument("job")
@output_option
@click.pass_obj
@guarded
def tasks(settings: Settings, job: str, output: str) -> None:
    """List the tasks of JOB: where each runs, its tries, and how it ended."""
    client = api.client_of(settings)
    found = api.tasks_of(client, settings, api.resolve(client, settings, job))
    if output == "json":
        print_json(found)
        return
    rows = [
        (
            task["task_index"],
            task["state"],
            task.get("node") or "",
            task.get("attempt_number") or "",
            "" if task.get("exit_code") is None else task["exit_code"],
            task.get("error_message") or task.get("reason") or "",
        )
        for task in found
    ]
    table(("TASK", "STATE", "NODE", "TRY", "EXIT", "WHY"), rows)


@click.command()
@click.argument("job")
@output_option
@click.pass_obj
@guarded
def explain(settings: Settings, job: str, output: str) -> None:
    """Say why tasks of JOB wait: what each waits for, and for every node whether it fits and why not."""
    client = api.client_of(settings)
    job_id = api.resolve(client, settings, job)
    said = client.call("GET", f"{api.job_path(settings, job_id)}/explain")
    if output == "json":
        print_json(said)
        return
    click.echo(f"{job}: {said['state']}" + (f", {harmless(said['reason'])}" if said.get("reason") else ""))
    waiting = said.get("tasks", ())
    if waiting:
        table(("TASK", "WAITS FOR", ""), [(t["task_index"], t["reason"], t.get("detail", "")) for t in waiting])
    if said.get("nodes"):
        table(("NODE", "FITS", "WHY"), [(n["node"], "yes" if n["fits"] else "no", n["why"]) for n in said["nodes"]])


COMMANDS: tuple[click.Command, ...] = (list_jobs, show, tasks, explain)


def age(at_ms: int) -> str:
    """How long ago; nothing for what never was."""
    return shown_seconds(int(time.time() * 1000) - at_ms) if at_ms else ""


def _counts(job: dict[str, Any]) -> str:
    """Done of all, and what failed."""
    counts = job.get("tasks") or {}
    failed = f", {counts['failed']} failed" if counts.get("failed") else ""
    return f"{counts.get('succeeded', 0)}/{job['replicas']}{failed}"


def _facts(job: dict[str, Any]) -> list[tuple[str, Any]]:
    spec = job.get("spec") or {}
    resources = spec.get("resources") or {}
    device = resources.get("device") or {}
    amounts = [
        f"{shown_cpu(resources['cpu_millis'])} cores" if "cpu_millis" in resources else "",
        shown_bytes(resources["memory_bytes"]) if resources.get("memory_bytes") else "",
        f"{device['count']} {device['kind']} {device.get('model', '')}".rstrip() if device else "",
    ]
    started, ended = job.get("started_at_ms") or 0, job.get("finished_at_ms") or 0
    facts = [
        ("job", job["name"]),
        ("id", job["job_id"]),
        ("state", job["state"]),
        ("reason", job.get("reason")),
        ("tasks", _counts(job)),
        ("priority", job.get("priority")),
        ("image", spec.get("image")),
        ("command", " ".join(spec.get("command", ()))),
        ("each task", ", ".join(amount for amount in amounts if amount)),
        ("bundle", spec.get("bundle")),
        ("failures", job.get("failures")),
        ("preemptions", job.get("preemptions")),
        ("created", f"{age(job['created_at_ms'])} ago"),
        ("ran", shown_seconds(ended - started) if started and ended else (age(started) if started else "")),
    ]
    return [(name, value) for name, value in facts if value]
