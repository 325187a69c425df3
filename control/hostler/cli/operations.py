"""`hostler operations`: submit, plan, follow, cancel, retry."""

import sys
from pathlib import Path
from typing import Any

import click

from hostler.cli import operations_api as api
from hostler.cli.client import Client
from hostler.cli.output import (
    EXIT_REFUSED,
    check_target,
    guarded,
    harmless,
    output_option,
    print_done,
    print_json,
    table,
)
from hostler.cli.settings import Settings

FINAL = {"succeeded", "failed", "canceled"}


@click.group(name="operations")
def command() -> None:
    """Submit, plan, follow, cancel and retry operations."""


def target_options(function: Any) -> Any:
    for option in reversed(
        [
            click.argument("definition", metavar="TYPE@VERSION"),
            click.option("--node", "nodes", multiple=True, help="target node, by name or id (repeatable)"),
            click.option("--label", "labels", multiple=True, help="target nodes by label, name=value (repeatable)"),
            click.option("--allocation", default="", help="target the nodes of this allocation"),
            click.option("--input", "-i", "pairs", multiple=True, help="name=text, or name:=JSON (repeatable)"),
            click.option("--input-file", type=click.File(), help="inputs as YAML or JSON, - for standard input"),
        ]
    ):
        function = option(function)
    return function


@command.command()
@target_options
@click.option("--replicas", type=click.IntRange(min=1), default=1, show_default=True, help="tasks on each node")
@click.option("--idempotency-key", help="submitting the same key and body again gives the same operation")
@click.option("--approved-plan", "approved", multiple=True, help="NODE_ID=DIGEST, as 'plan' printed it (repeatable)")
@click.option("--require-plan-approval", is_flag=True, help="refuse unless a plan is approved for every node")
@click.option("--timeout", type=click.IntRange(min=1), help="seconds each task may take; never more than the policy's")
@click.option("--max-concurrency", type=click.IntRange(min=1), help="nodes at once; never more than the policy's")
@click.option("--watch/--no-watch", default=False, help="follow until it ends")
@output_option
@click.pass_obj
@guarded
def submit(settings: Settings, definition: str, **options: Any) -> None:
    """Submit an operation to one or more nodes.

    \b
    hostler operations submit model.artifact.stage@v1 --node gpu-1 \\
      -i url=https://models.example.com/m.bin -i sha256=… -i path=/srv/models/m.bin --watch
    """
    client = Client(settings)
    body = api.submit_body(
        definition,
        inputs=api.read_inputs(options["pairs"], options["input_file"]),
        nodes=options["nodes"],
        labels=api.split_pairs(options["labels"], "label"),
        allocation=options["allocation"],
        replicas=options["replicas"],
        key=options["idempotency_key"],
        approved_plans=api.split_pairs(options["approved"], "approved plan"),
    )
    body |= {
        "require_plan_approval": options["require_plan_approval"],
        "timeout_seconds": options["timeout"] or 0,
        "max_concurrency": options["max_concurrency"] or 0,
    }
    created = client.call("POST", api.operations_path(settings), body=body)
    if created["deprecated"]:
        note = created["deprecation_note"]
        click.echo(f"{definition} is deprecated" + (f": {note}" if note else ""), err=True)
    if options["watch"]:
        _follow(client, settings, created["operation_id"], options["output"])
        return
    if options["output"] == "json":
        print_json(created)
    else:
        click.echo(created["operation_id"])


@command.command()
@target_options
@output_option
@click.pass_obj
@guarded
def plan(settings: Settings, definition: str, **options: Any) -> None:
    """Show what an operation would change on each node. Nothing is changed.

    The digests printed can be approved: 'submit --approved-plan NODE_ID=DIGEST' runs only if a fresh plan on
    the node is still the same.
    """
    from hostler.cli.watch import print_plan, wait_until_final

    client = Client(settings)
    body = api.submit_body(
        definition,
        inputs=api.read_inputs(options["pairs"], options["input_file"]),
        nodes=options["nodes"],
        labels=api.split_pairs(options["labels"], "label"),
        allocation=options["allocation"],
        mode="plan",
    )
    created = client.call("POST", api.operations_path(settings), body=body)
    operation = wait_until_final(client, api.operation_path(settings, created["operation_id"]))
    if options["output"] == "json":
        print_json(operation)
    else:
        print_plan(operation)
    _exit_with(operation)


@command.command()
@click.argument("operation_id")
@output_option
@click.pass_obj
@guarded
def get(settings: Settings, operation_id: str, output: str) -> None:
    """Show one operation with its tasks and steps."""
    from hostler.cli.watch import print_operation

    operation = Client(settings).call("GET", api.operation_path(settings, operation_id))
    if output == "json":
        print_json(operation)
    else:
        print_operation(operation)


@command.command(name="list")
@click.option(
    "--status", type=click.Choice(["queued", "running", "succeeded", "failed", "canceled"]), help="only those in it"
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="how many at most, the newest")
@output_option
@click.pass_obj
@guarded
def list_operations(settings: Settings, status: str | None, limit: int, output: str) -> None:
    """List operations, newest first."""
    from itertools import islice

    pages = Client(settings).pages(api.operations_path(settings), status=status, page_size=min(limit, 200))
    items = list(islice(pages, limit))
    if output == "json":
        print_json(items)
        return
    rows = [
        (
            item["operation_id"],
            f"{item['operation_type']}@{item['version']}",
            item["status"],
            item["error_code"],
        )
        for item in items
    ]
    table(("OPERATION", "DEFINITION", "STATUS", "ERROR"), rows)


@command.command()
@click.argument("operation_id")
@output_option
@click.pass_obj
@guarded
def watch(settings: Settings, operation_id: str, output: str) -> None:
    """Follow an operation until it ends. Exit code 0 only if it succeeded."""
    _follow(Client(settings), settings, operation_id, output)


@command.command()
@click.argument("operation_id")
@click.option("--follow", "-f", is_flag=True, help="go on until the operation ends")
@click.option("--step", "step_id", help="only this step")
@click.option("--task", "task_index", type=click.IntRange(0), help="only the task with this index")
@click.option("--attempt", type=click.IntRange(1), help="only attempts with this number")
@output_option
@click.pass_obj
@guarded
def logs(
    settings: Settings,
    operation_id: str,
    follow: bool,
    step_id: str | None,
    task_index: int | None,
    attempt: int | None,
    output: str,
) -> None:
    """Print the log lines of an operation's steps."""
    client = Client(settings)
    path = f"{api.operation_path(settings, operation_id)}/logs"
    asked = {"step_id": step_id, "task_index": task_index, "attempt": attempt}
    filters = {name: str(value) for name, value in asked.items() if value is not None}
    if follow:
        for event in client.events(path, follow="true", **filters):
            _print_line(event.data, output)
        return
    for line in client.pages(path, page_size=1000, **filters):
        _print_line(line, output)


@command.command()
@click.argument("operation_id")
@click.option("--node", required=True, help="name or id of one of its nodes")
@click.option("--file", "-o", "target", required=True, type=click.Path(path_type=Path), help="file to write")
@output_option
@click.pass_obj
@guarded
def envelope(settings: Settings, operation_id: str, node: str, target: Path, output: str) -> None:
    """Write the signed envelope of a node's task, which the node itself can judge without taking it."""
    check_target(target)
    data = Client(settings).raw(f"{api.operation_path(settings, operation_id)}/envelope", node=node)
    target.write_bytes(data)
    text = f"wrote {target}; on the node: hostler-agent policy check {target}"
    print_done({"file": str(target), "bytes": len(data)}, output, text)


@command.command()
@click.argument("operation_id")
@click.option("--download", "directory", type=click.Path(path_type=Path), help="directory for the small outputs")
@output_option
@click.pass_obj
@guarded
def artifacts(settings: Settings, operation_id: str, directory: Path | None, output: str) -> None:
    """List what an operation took in and gave out, by digest; with --download keep its small outputs."""
    from hostler.cli.artifacts import download, show

    client = Client(settings)
    path = f"{api.operation_path(settings, operation_id)}/artifacts"
    items = list(client.pages(path, page_size=200))
    show(items, output) if directory is None else download(client, path, items, directory, output)


@command.command()
@click.argument("operation_id")
@output_option
@click.pass_obj
@guarded
def cancel(settings: Settings, operation_id: str, output: str) -> None:
    """Cancel an operation. Queued tasks end at once, running ones when their process tree is gone."""
    done = Client(settings).call("POST", f"{api.operation_path(settings, operation_id)}/cancel")
    print_done(done, output, f"cancel requested; follow it with: hostler operations watch {operation_id}")


@command.command()
@click.argument("operation_id")
@output_option
@click.pass_obj
@guarded
def retry(settings: Settings, operation_id: str, output: str) -> None:
    """Try a failed operation again, from the first failed step of each task."""
    done = Client(settings).call("POST", f"{api.operation_path(settings, operation_id)}/retry")
    print_done(done, output, f"new attempt requested; follow it with: hostler operations watch {operation_id}")


@command.command()
@click.argument("operation_id")
@output_option
@click.pass_obj
@guarded
def probe(settings: Settings, operation_id: str, output: str) -> None:
    """Ask the nodes what became of the open tasks that they took. Their answers move the tasks."""
    _tell(Client(settings).call("POST", f"{api.operation_path(settings, operation_id)}/probe"), output)


@command.command()
@click.argument("operation_id")
@output_option
@click.pass_obj
@guarded
def recover(settings: Settings, operation_id: str, output: str) -> None:
    """Do the next honest thing for an operation: ask, send what waited, try a recent unclear failure again.

    An old failure stays one: 'hostler operations retry'. Call it again for whatever is next then.
    """
    _tell(Client(settings).call("POST", f"{api.operation_path(settings, operation_id)}/recover"), output)


def _tell(done: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(done)
        return
    for each in done["did"]:
        click.echo(f"did: {each['text']}")
    for text in done["remains"]:
        click.echo(f"remains: {text}")
    if not done["did"] and not done["remains"]:
        click.echo(f"{done['operation_id']} needs nothing")


def _follow(client: Client, settings: Settings, operation_id: str, output: str) -> None:
    from hostler.cli.watch import follow, wait_until_final

    path = api.operation_path(settings, operation_id)
    if output == "json":
        operation = wait_until_final(client, path)
        print_json(operation)
    else:
        operation = follow(client, path)
    _exit_with(operation)


def _exit_with(operation: dict[str, Any]) -> None:
    if operation["status"] != "succeeded":
        sys.exit(EXIT_REFUSED)


def _print_line(line: dict[str, Any], output: str) -> None:
    if output == "json":
        import msgspec

        click.echo(msgspec.json.encode(line).decode())
        return
    click.echo(f"{line.get('node_name') or line['task_id']}  {line['step_id']:12} {harmless(line['text'])}")
