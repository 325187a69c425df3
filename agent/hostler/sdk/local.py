"""Jobs inside this process, for a laptop and for tests: threads with a context of their own (TE-05).

`run_callable` is one job without a task API. A `LocalHouse` has one for its jobs, in memory: endpoints, child jobs by
callable, actors. `os.environ` is never written.
"""

from __future__ import annotations

import contextvars
import itertools
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hostler.sdk import info as job
from hostler.sdk.errors import ApiError
from hostler.sdk.info import JobInfo
from hostler.sdk.jobs import FINAL, RUN

_numbers = itertools.count(1)
_houses: dict[str, LocalHouse] = {}


def run_callable(function: Callable[..., Any], *args: Any, info: JobInfo | None = None, **kwargs: Any) -> Any:
    """Runs it as a job of its own, here and now; its result."""
    number = next(_numbers)
    around = info or JobInfo(job_id=f"local-{number}", task_id=f"local-{number}-0", job=f"/local/job-{number}")
    around = replace(around, namespace=around.namespace or "/".join(around.job.split("/")[:3]))

    def work() -> Any:
        with job.inside(around):
            return function(*args, **kwargs)

    return contextvars.copy_context().run(work)


class LocalHouse:
    """A control plane for the jobs of this process. `close` ends all of them."""

    def __init__(self) -> None:
        self.address = f"local://{secrets.token_hex(8)}"
        self.lock = threading.Lock()
        self.endpoints: dict[tuple[str, str], dict[str, Any]] = {}
        self.jobs: dict[str, _LocalJob] = {}
        self.project_key = secrets.token_hex(32)
        self.namespace_keys: dict[str, str] = {}
        _houses[self.address] = self

    def run(self, path: str, function: Callable[..., Any], *args: Any, ports: Sequence[str] = (), **kwargs: Any) -> Any:
        """A root job with one task; its result, in this thread."""
        return run_callable(function, *args, info=self.info(path, ports), **kwargs)

    def info(self, path: str, ports: Sequence[str] = (), parent: str | None = None) -> JobInfo:
        number = next(_numbers)
        return JobInfo(
            job_id=f"local-{number}",
            task_id=f"local-{number}-0",
            attempt_uid=f"local-{number}-0-1",
            job=path,
            parent_job_id=parent,
            namespace="/".join(path.split("/")[:3]),
            controller_address=self.address,
            ports={name: _free_port() for name in ports},
        )

    def start(self, around: JobInfo, command: Sequence[str]) -> _LocalJob:
        made = _LocalJob(around, list(command))
        with self.lock:
            self.jobs[around.job_id] = made
        made.start()
        return made

    def close(self) -> None:
        with self.lock:
            jobs = list(self.jobs.values())
        for each in jobs:
            each.stop.set()
        for each in jobs:
            each.thread.join(timeout=5)
        _houses.pop(self.address, None)


class _LocalJob:
    def __init__(self, around: JobInfo, command: list[str]) -> None:
        self.info, self.stop, self.status, self.message = around, threading.Event(), "running", ""
        self._words = command[len(RUN) :] if tuple(command[: len(RUN)]) == RUN else None
        self.thread = threading.Thread(target=self._run, name=f"hostler-local-{around.job}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def _run(self) -> None:
        from hostler.sdk.run import main

        try:
            if self._words is None:
                raise ValueError("a local house runs callables, not programs")
            with job.inside(self.info), job.until(self.stop):
                main(self._words)
        except BaseException as err:  # noqa: BLE001 - the edge of a job
            self.status, self.message = "failed", f"{type(err).__name__}: {err}"
        else:
            self.status = "canceled" if self.stop.is_set() else "succeeded"

    def state(self) -> dict[str, Any]:
        return {"job_id": self.info.job_id, "job": self.info.job, "status": self.status, "error_message": self.message}


class _LocalClient:
    """What `TaskClient` is to a real task."""

    def __init__(self, house: LocalHouse, around: JobInfo) -> None:
        self._house, self._info = house, around

    def keys(self) -> dict[str, str]:
        with self._house.lock:
            own = self._house.namespace_keys.setdefault(self._info.namespace, secrets.token_hex(32))
        return {"project_key": self._house.project_key, "namespace_key": own}

    def progress(self, *_: Any) -> None:
        """Nobody follows."""

    def put_endpoint(
        self, endpoint_id: str, name: str, address: str, lease_ms: int, metadata: dict[str, str]
    ) -> dict[str, Any]:
        row = {
            "endpoint_id": endpoint_id, "name": name, "namespace": self._info.namespace, "address": address,
            "metadata": metadata, "task_id": self._info.task_id, "attempt_uid": self._info.attempt_uid,
            "until": time.monotonic() + lease_ms / 1000,
        }  # fmt: skip
        with self._house.lock:
            self._house.endpoints[self._info.task_id, endpoint_id] = row
        return {"lease_ms": lease_ms, **row}

    def delete_endpoint(self, endpoint_id: str) -> bool:
        with self._house.lock:
            return self._house.endpoints.pop((self._info.task_id, endpoint_id), None) is not None

    def endpoints(self, name: str = "", *, namespace: str = "", job: str = "") -> list[dict[str, Any]]:
        with self._house.lock:
            known = self._house.jobs.get(job)
            path = known.info.job if known else job
            wanted = "/".join(path.split("/")[:3]) or namespace or self._info.namespace
            rows = [row for row in self._house.endpoints.values() if row["namespace"] == wanted]
        now = time.monotonic()
        return [row for row in rows if name in ("", row["name"]) and row["until"] > now]

    def submit(self, spec: dict[str, Any], _: str) -> dict[str, Any]:
        path = f"{self._info.job}/{spec['name']}"
        around = self._house.info(path, spec.get("ports", ()), self._info.job)
        return self._house.start(around, spec["command"]).state()

    def job(self, job_id: str, wait_s: int = 0) -> dict[str, Any]:
        found = self._house.jobs.get(job_id)
        if found is None:
            raise ApiError(404, "not_found", f"there is no job {job_id!r}")
        if wait_s and found.status not in FINAL:
            found.thread.join(timeout=wait_s)
        return found.state()

    def cancel(self, job_id: str) -> dict[str, Any]:
        self._house.jobs[job_id].stop.set()
        return self._house.jobs[job_id].state()


def client_of(around: JobInfo) -> Any:
    house = _houses.get(around.controller_address)
    return _LocalClient(house, around) if house is not None else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
