"""Who this task is: from the environment in a process of its own, from a ContextVar inside another one (TE-05).

`os.environ` is read and never written: two jobs in one process each see their own.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_PORT = "HOSTLER_PORT_"


@dataclass(frozen=True)
class JobInfo:
    """Attributes:
    job_id: of the operation; `job` is its path.
    parent_job_id: path of the parent, None for a root job (TE-08).
    namespace: path of the root job (TE-16).
    controller_address: of the task API, such as unix:///run/hostler/task.sock; "" where there is none.
    ports: name → port, the same number on the node.
    """

    job_id: str
    task_id: str
    job: str = ""
    parent_job_id: str | None = None
    namespace: str = ""
    task_index: int = 0
    num_tasks: int = 1
    attempt: int = 1
    attempt_uid: str = ""
    worker_id: str = ""
    vm_address: str = "127.0.0.1"
    controller_address: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)


_current: contextvars.ContextVar[JobInfo | None] = contextvars.ContextVar("hostler_job_info", default=None)


def job_info() -> JobInfo | None:
    """Of the job around this code; None outside of any."""
    return _current.get() or from_environment(os.environ)


@contextlib.contextmanager
def inside(info: JobInfo) -> Iterator[None]:
    """The block runs as that job, in this context only."""
    token = _current.set(info)
    try:
        yield
    finally:
        _current.reset(token)


_stop: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("hostler_stop", default=None)


def stop_event() -> threading.Event | None:
    """What ends a job that is a thread; None in a process of its own, which is told by SIGTERM."""
    return _stop.get()


@contextlib.contextmanager
def until(stop: threading.Event) -> Iterator[None]:
    """The block is to end when `stop` is set."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def from_environment(environment: Mapping[str, str]) -> JobInfo | None:
    """What the agent put there (TE-01); ours wins over the alias."""

    def value(name: str, default: str = "") -> str:
        return environment.get(f"HOSTLER_{name}") or environment.get(f"IRIS_{name}") or default

    if not value("JOB_ID") or not value("TASK_ID"):
        return None
    job = value("JOB", value("JOB_ID"))
    named = {name[len(_PORT) :].lower(): text for name, text in environment.items() if name.startswith(_PORT)}
    return JobInfo(
        job_id=value("JOB_ID"),
        task_id=value("TASK_ID"),
        job=job,
        parent_job_id=value("PARENT_JOB") or None,
        namespace=value("NAMESPACE", job),
        task_index=_number(value("TASK_INDEX"), 0),
        num_tasks=_number(value("NUM_TASKS"), 1),
        attempt=_number(value("ATTEMPT"), 1),
        attempt_uid=value("ATTEMPT_UID"),
        worker_id=value("WORKER_ID"),
        vm_address=value("VM_ADDRESS", "127.0.0.1"),
        controller_address=value("CONTROLLER_ADDRESS"),
        ports={name: int(text) for name, text in named.items() if text.isdigit()},
    )


def port_variable(name: str) -> str:
    """HOSTLER_PORT_<NAME>."""
    return _PORT + name.upper().replace("-", "_")


def _number(text: str, default: int) -> int:
    return int(text) if text.isdigit() else default
