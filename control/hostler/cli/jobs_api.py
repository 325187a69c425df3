"""Paths and bodies of the jobs API, as the command line builds them."""

import heapq
import secrets
import time
from collections.abc import Collection, Iterator
from typing import Any

import click
import msgspec

from hostler.base.errors import error
from hostler.catalog.job import JobSpec
from hostler.cli.client import Client, quoted
from hostler.cli.operations_api import operation_path, project_of
from hostler.cli.settings import Settings

FINAL = frozenset({"succeeded", "failed", "canceled"})
OPEN = ("pending", "running")
STATES = (*OPEN, "succeeded", "failed", "canceled")
WAIT_S = 20  # below the client's patience


def client_of(settings: Settings) -> Client:
    """Closed when the command ends."""
    client = Client(settings)
    click.get_current_context().call_on_close(client.close)
    return client


def jobs_path(settings: Settings) -> str:
    return f"/api/v1/projects/{quoted(project_of(settings))}/jobs"


def job_path(settings: Settings, job_id: str) -> str:
    return f"{jobs_path(settings)}/{quoted(job_id)}"


def logs_path(settings: Settings, job_id: str) -> str:
    """A job is an operation: its log is the operation's."""
    return f"{operation_path(settings, job_id)}/logs"


def body_of(spec: JobSpec, *, bundle: str = "", key: str = "", parent: str = "") -> dict[str, Any]:
    """What differs from a job's defaults; the key makes a repeated request harmless."""
    if bundle:
        spec = msgspec.structs.replace(spec, bundle=bundle)
    said, plain = msgspec.to_builtins(spec), msgspec.to_builtins(JobSpec(name=spec.name, command=spec.command))
    own = {name: value for name, value in said.items() if value != plain[name] or name in ("name", "command")}
    return own | {"idempotency_key": key or secrets.token_hex(16)} | ({"parent": parent} if parent else {})


def resolve(client: Client, settings: Settings, job: str) -> str:
    """The id of a job that a person names by id, or by its path `/user/name`. Raises `not_found`."""
    if not job.startswith("/"):
        return job
    job_id: str = client.call("GET", job_path(settings, job))["job_id"]
    return job_id


def listed(client: Client, settings: Settings, states: Collection[str], below: str) -> Iterator[dict[str, Any]]:
    """Newest first, in these states. Each state is asked for by itself: the ended ones may be very many."""
    asked = [""] if set(states) == set(STATES) else sorted(set(states))
    pages = [client.pages(jobs_path(settings), page_size=200, **_said(state=state, prefix=below)) for state in asked]
    return heapq.merge(*pages, key=lambda job: job["job_id"], reverse=True)


def _said(**filters: str) -> dict[str, Any]:
    return {name: value for name, value in filters.items() if value}


def finished(client: Client, settings: Settings, job_id: str, patience_s: int | None = None) -> dict[str, Any]:
    """The job's last state, when it has one. Raises `timeout` after `patience_s`."""
    end = None if patience_s is None else time.monotonic() + patience_s
    while True:
        left = WAIT_S if end is None else max(0, min(WAIT_S, int(end - time.monotonic() + 0.999)))
        job: dict[str, Any] = client.call("GET", f"{job_path(settings, job_id)}/wait", timeout_seconds=left)
        if job["state"] in FINAL:
            return job
        if end is not None and time.monotonic() >= end:
            raise error("timeout", f"{job_id} has not ended in {patience_s} s", hint="it goes on; wait again")


def tasks_of(client: Client, settings: Settings, job_id: str) -> list[dict[str, Any]]:
    return list(client.pages(f"{job_path(settings, job_id)}/tasks", page_size=200))


def exit_status(job: dict[str, Any], tasks: list[dict[str, Any]]) -> int:
    """What `run` and `wait` end with: the code of the first task that failed by one of its own, else 1."""
    if job["state"] == "succeeded":
        return 0
    codes = [task.get("exit_code") for task in sorted(tasks, key=lambda task: task["task_index"])]
    return next((code for code in codes if isinstance(code, int) and 0 < code < 256), 1)
