"""A job on the terminal: its output as it comes, and one line at the end of what became of it."""

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from hostler.cli import jobs_api as api
from hostler.cli.client import Client
from hostler.cli.output import harmless, print_json
from hostler.cli.quantities import shown_seconds
from hostler.cli.settings import Settings

EXIT_INTERRUPTED = 130
SECOND_CTRL_C_S = 3.0


def follow_to_end(client: Client, settings: Settings, job_id: str, output: str) -> int:
    """Prints what the tasks print until the job has ended; → the exit code. Ctrl-C leaves the job alone, twice
    cancels it."""
    try:
        printer = Printer(client, settings, job_id)
        if output == "json":
            job = api.finished(client, settings, job_id)
        else:
            for event in client.events(api.logs_path(settings, job_id), follow="true"):
                printer.print(event.data)
            job = api.finished(client, settings, job_id)
    except KeyboardInterrupt:
        return _interrupted(client, settings, job_id)
    tasks = api.tasks_of(client, settings, job_id)
    if output == "json":
        print_json(job | {"task_list": tasks})
    else:
        print_summary(job, tasks)
    return api.exit_status(job, tasks)


def _interrupted(client: Client, settings: Settings, job_id: str) -> int:
    """As with `kubectl logs -f`: whoever looks away ends nothing. A second Ctrl-C at once is meant for the job."""
    click.echo(f"\n{job_id} goes on; see it again with: hostler jobs logs -f {job_id}", err=True)
    if not sys.stderr.isatty():
        return EXIT_INTERRUPTED
    click.echo("Ctrl-C once more cancels it", err=True)
    try:
        time.sleep(SECOND_CTRL_C_S)
    except KeyboardInterrupt:
        client.call("POST", f"{api.job_path(settings, job_id)}/cancel")
        click.echo(f"cancel of {job_id} requested", err=True)
    return EXIT_INTERRUPTED


class Printer:
    """Lines of many tasks, each behind its number where there is more than one."""

    def __init__(self, client: Client, settings: Settings, job_id: str) -> None:
        self._ask: Callable[[], list[dict[str, Any]]] = lambda: api.tasks_of(client, settings, job_id)
        self._index: dict[str, int] = {}
        self._width = 0

    def index(self, task_id: str) -> int:
        """-1 for a task that the job does not know."""
        if task_id not in self._index:
            self._index |= {task["task_id"]: task["task_index"] for task in self._ask()}
            self._index.setdefault(task_id, -1)
            self._width = len(str(max(self._index.values()))) if len(self._index) > 1 else 0
        return self._index[task_id]

    def print(self, line: dict[str, Any]) -> None:
        """What a task wrote to stderr goes there; what the agent says of it as well."""
        index = self.index(line["task_id"])
        prefix = f"[{index:>{self._width}}] " if self._width else ""
        to_stdout = line["stream"] == "stdout"
        text = line["text"]
        if (sys.stdout if to_stdout else sys.stderr).isatty():
            text = harmless(text)  # a terminal acts on what a task writes; a file gets it as it is
        click.echo(f"{prefix}{text}", err=not to_stdout)


def print_summary(job: dict[str, Any], tasks: list[dict[str, Any]]) -> None:
    """On standard error: standard output is the tasks' own."""
    started, ended = job.get("started_at_ms") or 0, job.get("finished_at_ms") or 0
    took = f" after {shown_seconds(ended - started)}" if started and ended else ""
    colour = {"succeeded": "green", "failed": "red"}.get(job["state"], "yellow")
    counts = job.get("tasks") or {}
    parts = [f"{counts[state]} {state}" for state in ("succeeded", "failed", "canceled") if counts.get(state)]
    click.echo(f"{job['name']} {click.style(job['state'], fg=colour)}{took} ({', '.join(parts)})", err=True)
    for task in [task for task in tasks if task["state"] == "failed"][:10]:
        why = harmless(task.get("error_message") or task.get("reason") or "")
        code = "" if task.get("exit_code") is None else f" with exit code {task['exit_code']}"
        place = f" on {task['node']}" if task.get("node") else ""
        click.echo(f"  task {task['task_index']}{place} failed{code}: {why} [{task.get('error_code', '')}]", err=True)
    if job["state"] != "succeeded" and job.get("reason"):
        click.echo(f"  {harmless(job['reason'])}", err=True)
