"""`hostler jobs`: run a command on the project's nodes, follow it, ask why it waits, end it."""

import sys
from pathlib import Path
from typing import Any

import click

from hostler.base.errors import HostlerError
from hostler.catalog.job import JobSpec
from hostler.cli import jobs_api as api
from hostler.cli import jobs_bundle, jobs_logs, jobs_show
from hostler.cli.client import Client
from hostler.cli.jobs_exec import register
from hostler.cli.jobs_file import read_jobs
from hostler.cli.jobs_options import BYTES, SECONDS, run_options, spec_from
from hostler.cli.output import guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings

WORKSPACE = click.option(
    "--workspace", "-w", type=click.Path(path_type=Path), help="directory that tasks find, read-only, at /app"
)
MOST = click.option("--max-bundle", type=BYTES, help="how large the workspace may be [256MiB]")


@click.group(name="jobs")
def command() -> None:
    """Run, follow and end jobs.

    \b
    hostler jobs run --workspace . --image ghcr.io/acme/train@sha256:… --gpu 8 -- python train.py
    hostler jobs submit job.yaml
    hostler jobs list
    hostler jobs explain /ann/train        why it does not run
    """


@command.command(context_settings={"allow_interspersed_args": False})  # what follows COMMAND is its own
@run_options
@WORKSPACE
@MOST
@click.option("--bundle", default="", help="sha256 of a bundle that the project holds, instead of a workspace")
@click.option("--parent", default="", help="path of the job that it belongs to")
@click.option("--idempotency-key", "key", default="", help="the same key and job again give the same job")
@click.option("--detach", "-d", is_flag=True, help="print the job's id and do not wait")
@output_option
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND [ARGUMENT]…")
@click.pass_obj
@guarded
def run(settings: Settings, argv: tuple[str, ...], output: str, **options: Any) -> None:
    """Run COMMAND as a job, print what it prints, and end with its exit code.

    Ctrl-C stops looking, and the job goes on; a second Ctrl-C at once cancels it.

    \b
    hostler jobs run --image docker.io/library/python@sha256:… -- python -c 'print(1)'
    hostler jobs run -w . --replicas 4 --gang --gpu 8:h100 --memory 512GiB -- ./train.sh --lr 1e-4
    hostler jobs run --detach --name nightly --timeout 2h -e HF_HOME=/cache -- make all
    """
    if options["workspace"] and options["bundle"]:
        raise click.UsageError("a job has a --workspace or a --bundle, not both")
    spec = spec_from(argv, options)
    client = api.client_of(settings)
    made = _submit(client, settings, spec, output, options)
    if options["detach"]:
        _print_made([made], output)
        return
    from hostler.cli.jobs_follow import follow_to_end

    if output != "json":
        click.echo(f"{made['job_id']} {made['name']}{_note(made)}", err=True)
    sys.exit(follow_to_end(client, settings, made["job_id"], output))


@command.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@WORKSPACE
@MOST
@click.option("--parent", default="", help="path of the job that they belong to")
@click.option("--dry-run", is_flag=True, help="only read the file and say what would be submitted")
@output_option
@click.pass_obj
@guarded
def submit(settings: Settings, file: Path, dry_run: bool, output: str, **options: Any) -> None:
    """Submit every job of a YAML FILE; documents are parted by ---.

    \b
    name: hello
    image: docker.io/library/busybox@sha256:…
    command: [echo, hello]
    resources: {cpu: 500m, memory: 64MiB}
    """
    specs = read_jobs(file)
    if dry_run:
        import msgspec

        print_json([msgspec.to_builtins(spec) for spec in specs]) if output == "json" else click.echo(
            "\n".join(f"{spec.name}: {spec.replicas} × {' '.join(spec.command)[:80]}" for spec in specs)
        )
        return
    client = api.client_of(settings)
    # all are sound before the first is sent; a later one that is refused leaves the earlier ones running
    _print_made([_submit(client, settings, spec, output, options) for spec in specs], output)


@command.command()
@click.argument("job")
@click.option("--timeout", type=SECONDS, help="give up waiting after this long; the job goes on")
@output_option
@click.pass_obj
@guarded
def wait(settings: Settings, job: str, timeout: int | None, output: str) -> None:
    """Wait until JOB, an id or a path, has ended. The exit code is the task's own, as with 'run'."""
    from hostler.cli.jobs_follow import print_summary

    client = api.client_of(settings)
    job_id = api.resolve(client, settings, job)
    ended = api.finished(client, settings, job_id, timeout)
    tasks = api.tasks_of(client, settings, job_id)
    if output == "json":
        print_json(ended | {"task_list": tasks})
    else:
        print_summary(ended, tasks)
    sys.exit(api.exit_status(ended, tasks))


@command.command()
@click.argument("jobs", nargs=-1, required=True)
@output_option
@click.pass_obj
@guarded
def cancel(settings: Settings, jobs: tuple[str, ...], output: str) -> None:
    """Cancel JOBS with all below them. One that has ended stays as it is."""
    client = api.client_of(settings)
    for job in jobs:
        job_id = api.resolve(client, settings, job)
        done = client.call("POST", f"{api.job_path(settings, job_id)}/cancel")
        print_done(done, output, f"cancel of {job} requested; see: hostler jobs wait {job_id}")


def _submit(client: Client, settings: Settings, spec: JobSpec, output: str, options: dict[str, Any]) -> dict[str, Any]:
    """A bundle that went away between the look and the submit is sent once more."""
    workspace, bundle = options["workspace"], options.get("bundle", "")
    if workspace and not spec.bundle:
        bundle = jobs_bundle.upload(client, settings, workspace, output, options["max_bundle"])
    body = api.body_of(spec, bundle=bundle, key=options.get("key", ""), parent=options["parent"])
    try:
        made: dict[str, Any] = client.call("POST", api.jobs_path(settings), body=body)
    except HostlerError as err:
        if err.code != "bundle_missing" or not workspace:
            raise
        jobs_bundle.upload(client, settings, workspace, output, options["max_bundle"])
        made = client.call("POST", api.jobs_path(settings), body=body)
    return made


def _note(made: dict[str, Any]) -> str:
    return "" if made.get("created", True) else " (it was there already)"


def _print_made(made: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        print_json(made if len(made) != 1 else made[0])
        return
    for job in made:
        click.echo(job["job_id"])


for _part in (*jobs_show.COMMANDS, jobs_logs.logs, jobs_bundle.bundle):
    command.add_command(_part)

register(command)
