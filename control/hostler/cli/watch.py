"""Following an operation: progress bars while it runs, the step timeline when it has ended."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from hostler.cli.client import Client
from hostler.cli.output import literal, styled

FINAL = {"succeeded", "failed", "canceled"}
_TIMELINE_WIDTH = 40


def wait_until_final(client: Client, path: str) -> dict[str, Any]:
    """The operation's last state, without printing anything on the way."""
    operation: dict[str, Any] = client.call("GET", path)
    if operation["status"] not in FINAL:
        for _ in client.events(f"{path}/events"):
            pass
        operation = client.call("GET", path)
    return operation


def follow(client: Client, path: str, console: Console | None = None) -> dict[str, Any]:
    """Shows every task's present step as a bar, then the timeline; returns the last state."""
    console = console or Console()
    operation: dict[str, Any] = client.call("GET", path)
    console.print(f"[bold]{operation['operation_id']}[/]  {operation['operation_type']}@{operation['version']}")
    if operation["status"] not in FINAL:
        columns = (
            TextColumn("{task.fields[node]}"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            bars = Bars(progress, operation)
            for event in client.events(f"{path}/events"):
                bars.show(event.data)
        operation = client.call("GET", path)
    print_operation(operation, console)
    return operation


class Bars:
    """One bar a task; on a bar stands the step that reported last."""

    def __init__(self, progress: Progress, operation: dict[str, Any]) -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {
            task["task_id"]: progress.add_task("waiting", total=None, node=task["node_name"])
            for task in operation["tasks"]
        }

    def show(self, event: dict[str, Any]) -> None:
        """Takes an event of the operation; whatever is not about a task's step changes nothing."""
        body = event.get("body", event)
        bar = self._bars.get(event.get("task_id") or body.get("task_id", ""))
        if bar is not None and body.get("waiting_for"):
            self._progress.update(bar, description=literal(f"waits for {body['waiting_for']}"))
        name = body.get("current_step_name") or body.get("step_id")
        if bar is None or not name:
            return
        total, done = body.get("total_units") or None, body.get("done_units", 0)
        text = name if body.get("step_status", "running") == "running" else f"{name} {body['step_status']}"
        self._progress.update(bar, description=literal(text), total=total, completed=done)


def print_operation(operation: dict[str, Any], console: Console | None = None) -> None:
    """The operation, its tasks, and each task's steps on one time line."""
    console = console or Console()
    console.print(f"{operation['operation_id']}  {styled(operation['status'])}")
    spans = [step for task in operation["tasks"] for step in task["steps"] if step.get("started_at_ms")]
    start = min((step["started_at_ms"] for step in spans), default=0)
    end = max((step.get("finished_at_ms") or step["started_at_ms"] for step in spans), default=1)
    for task in operation["tasks"]:
        _print_task(task, console, start, max(end - start, 1))


def _print_task(task: dict[str, Any], console: Console, start: int, span: int) -> None:
    attempt = f"  attempt {task['attempt_number']}" if task.get("attempt_number", 1) > 1 else ""
    console.print(f"[bold]{literal(task['node_name'])}[/]  {task['task_id']}  {styled(task['status'])}{attempt}")
    for step in task["steps"]:
        recovered = " [yellow]recovered[/]" if step.get("recovered") else ""
        console.print(
            f"  {step['step_id']:12} {_line(step, start, span)} {_seconds(step):>9}  "
            f"{styled(step['status'])}{recovered}",
            soft_wrap=True,
        )
    if task.get("waiting_for"):
        console.print(f"  [yellow]waits[/]: {literal(task['waiting_for'])}", soft_wrap=True)
    if task.get("error_code"):
        console.print(f"  [red]{task['error_code']}[/]: {literal(task.get('error_message', ''))}", soft_wrap=True)
        if task.get("error_hint"):
            console.print(f"  {literal(task['error_hint'])}", soft_wrap=True)


def _line(step: dict[str, Any], start: int, span: int) -> str:
    """Where the step lies between the first start and the last end of the operation."""
    if not step.get("started_at_ms"):
        return " " * _TIMELINE_WIDTH
    finished = step.get("finished_at_ms") or int(time.time() * 1000)
    left: int = min(_TIMELINE_WIDTH - 1, (step["started_at_ms"] - start) * _TIMELINE_WIDTH // span)
    right: int = min(_TIMELINE_WIDTH, max(left + 1, (finished - start) * _TIMELINE_WIDTH // span))
    return " " * left + "━" * (right - left) + " " * (_TIMELINE_WIDTH - right)


def _seconds(step: dict[str, Any]) -> str:
    if not (step.get("started_at_ms") and step.get("finished_at_ms")):
        return ""
    took_ms: int = step["finished_at_ms"] - step["started_at_ms"]
    return f"{took_ms / 1000:.3f} s"


def print_plan(operation: dict[str, Any], console: Console | None = None) -> None:
    """Every change each node would make, and the digest that can be approved."""
    console = console or Console()
    for task in operation["tasks"]:
        console.print(f"[bold]{literal(task['node_name'])}[/]  {styled(task['status'])}")
        for step in task["steps"]:
            console.print(f"  {step['step_id']} ({step['step_kind']})")
            for change in (step.get("plan") or {}).get("changes", ()):
                console.print(f"    {change['action']:8} {literal(change['target'])}", soft_wrap=True)
                for line in change.get("detail", "").splitlines():
                    console.print(f"      {literal(line)}", soft_wrap=True)
        if task.get("error_code"):
            console.print(f"  [red]{task['error_code']}[/]: {literal(task.get('error_message', ''))}")
        if task.get("plan_digest"):
            console.print(f"  approve with: --approved-plan {task['node_id']}={task['plan_digest']}", soft_wrap=True)
